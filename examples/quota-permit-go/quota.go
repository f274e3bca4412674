package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// How long the quota service may take for an answer.
const requestTimeout = 2 * time.Second

// request is what a pod asks the quota service for.
type request struct {
	Team string `json:"team"`
	Pod  string `json:"pod"` // its UID: the same pod asks once
	Node string `json:"node"`
}

// quotas is a client of the quota service: POST /claims grants (200) or has none left (409), DELETE /claims/UID returns
// what was granted. Both may be repeated.
type quotas struct {
	url    string
	client *http.Client
}

func newQuotas(url string) *quotas {
	return &quotas{url: url, client: &http.Client{Timeout: requestTimeout}}
}

// claim says whether the service granted the pod's request.
func (q *quotas) claim(ctx context.Context, of request) (bool, error) {
	body, err := json.Marshal(of)
	if err != nil {
		return false, err
	}
	code, err := q.do(ctx, http.MethodPost, "/claims", body)
	if err != nil {
		return false, err
	}
	switch code {
	case http.StatusOK:
		return true, nil
	case http.StatusConflict:
		return false, nil
	}
	return false, fmt.Errorf("the quota service answered %d", code)
}

// release returns the pod's quota; one that was not granted is a success too.
func (q *quotas) release(ctx context.Context, uid string) error {
	code, err := q.do(ctx, http.MethodDelete, "/claims/"+url.PathEscape(uid), nil)
	if err == nil && code != http.StatusOK && code != http.StatusNotFound {
		err = fmt.Errorf("the quota service answered %d", code)
	}
	return err
}

func (q *quotas) do(ctx context.Context, method, path string, body []byte) (int, error) {
	made, err := http.NewRequestWithContext(ctx, method, q.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	response, err := q.client.Do(made)
	if err != nil {
		return 0, fmt.Errorf("the quota service does not answer: %w", err)
	}
	defer response.Body.Close()
	return response.StatusCode, nil
}
