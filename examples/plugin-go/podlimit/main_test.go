package main

import (
	"context"
	"math"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	trireme "trireme.dev/sdk/go"
	"trireme.dev/sdk/go/framework"
)

// A node that takes more pods than its label says makes the label useless; one that takes fewer wastes room.
func TestRoomIsTheLimitLessThePodsThatAreThere(t *testing.T) {
	cases := []struct {
		limit string
		pods  int
		room  int
		code  framework.Code
	}{
		{"", 3, math.MaxInt32, framework.Success},
		{"two", 3, math.MaxInt32, framework.Success},
		{"2", 0, 2, framework.Success},
		{"2", 1, 1, framework.Success},
		{"2", 2, 0, framework.Unschedulable},
		{"2", 3, 0, framework.Unschedulable},
		{"0", 0, 0, framework.Unschedulable},
	}
	for _, c := range cases {
		pods := make([]*v1.Pod, c.pods)
		for i := range pods {
			pods[i] = &v1.Pod{}
		}
		node := trireme.NewNodeInfo(
			&v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{limitLabel: c.limit}}}, pods...)
		room, answer := podLimit{}.FilterCapacity(context.Background(), nil, nil, node, 1)
		if room != c.room || answer.Code() != c.code {
			t.Errorf("limit %q with %d pods: room for %d, %v", c.limit, c.pods, room, answer.Code())
		}
	}
}
