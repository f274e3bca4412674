package main

import (
	"context"
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	trireme "trireme.dev/sdk/go"
	"trireme.dev/sdk/go/framework"
)

func node(labels map[string]string) framework.NodeInfo {
	return trireme.NewNodeInfo(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: labels}})
}

// made is the plugin with these arguments.
func made(t *testing.T, args string) *maintenance {
	t.Helper()
	plugin, err := definition.New(context.Background(), []byte(args), nil)
	if err != nil {
		t.Fatal(err)
	}
	return plugin.(*maintenance)
}

// A node under maintenance that is not refused, or any other that is, breaks the plugin's one promise.
func TestFilterRefusesNodesUnderMaintenance(t *testing.T) {
	cases := []struct {
		args   string
		labels map[string]string
		code   framework.Code
	}{
		{`{}`, nil, framework.Success},
		{`{}`, map[string]string{maintenanceLabel: ""}, framework.UnschedulableAndUnresolvable},
		{`{}`, map[string]string{maintenanceLabel: "disk"}, framework.UnschedulableAndUnresolvable},
		{`{"maintenanceLabel": "down"}`, map[string]string{"down": ""}, framework.UnschedulableAndUnresolvable},
		{`{"maintenanceLabel": "down"}`, map[string]string{maintenanceLabel: ""}, framework.Success},
	}
	for _, c := range cases {
		answer := made(t, c.args).Filter(context.Background(), nil, nil, node(c.labels))
		if answer.Code() != c.code {
			t.Errorf("args %s, labels %v: %v", c.args, c.labels, answer.Code())
		}
	}
}

// A mistake that is not refused shows as pods on nodes under maintenance.
func TestWrongArgumentsAreRefused(t *testing.T) {
	for args, field := range map[string]string{
		`{"maintenanceLabel": "no key"}`: "maintenanceLabel",
		`{"maintenanceLabel": 7}`:        "maintenanceLabel",
		`{"label": "down"}`:              "label",
		`[]`:                             "",
	} {
		_, err := definition.New(context.Background(), []byte(args), nil)
		var errs trireme.FieldErrors
		if !errors.As(err, &errs) || len(errs) != 1 || errs[0].Field != field || errs[0].Message == "" {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// Scores outside 0 to 100 would be an error of the plugin, whatever people write into labels.
func TestScoreIsTheNodesPreference(t *testing.T) {
	labels := map[string]int64{"": 0, "7": 7, "100": 100, "101": 100, "-5": 0, "many": 0, "1.5": 0, " 9": 0}
	for label, want := range labels {
		got, answer := made(t, `{}`).Score(context.Background(), nil, nil, node(map[string]string{preferenceLabel: label}))
		if got != want || !answer.IsSuccess() {
			t.Errorf("score of preference %q = %v, want %d", label, got, want)
		}
	}
}
