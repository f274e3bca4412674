// Command noop-extender is an HTTP extender of kube-scheduler that lets every node pass and scores all alike: what asking
// an extender costs, without its own work. Its argument is the address to listen on.
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"os"
)

// arguments has what is read of the scheduler's ExtenderArgs; with nodeCacheCapable nodes come by name.
type arguments struct {
	NodeNames []string
}

type filtered struct {
	NodeNames []string
}

type hostPriority struct {
	Host  string
	Score int64
}

func handle(answer func(arguments) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var args arguments
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer(args)); err != nil {
			log.Print(err)
		}
	}
}

func main() {
	http.Handle("/filter", handle(func(args arguments) any { return filtered(args) }))
	http.Handle("/prioritize", handle(func(args arguments) any {
		scores := make([]hostPriority, len(args.NodeNames))
		for i, name := range args.NodeNames {
			scores[i] = hostPriority{Host: name, Score: 5}
		}
		return scores
	}))
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}
