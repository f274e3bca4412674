/*
// Also change: internal/trireme/framework/status.py (status codes).

Copyright 2025 The Kubernetes Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

// Changed for Trireme: from k8s.io/kube-scheduler/framework, without what a plugin outside the scheduler cannot have.

package framework

import (
	"errors"
	"maps"
	"slices"
	"strings"
)

// Code is what a Status says, and so what the scheduler does next.
type Code int

const (
	// Success: the pod, or the node for it, passes. A nil Status is a success too.
	Success Code = iota
	// Error: the plugin failed. The pod is tried again after the back-off of errors; preemption is not tried.
	Error
	// Unschedulable: refused now. Preemption may help.
	Unschedulable
	// UnschedulableAndUnresolvable: refused, and evicting pods would not help.
	UnschedulableAndUnresolvable
	// Wait: of Permit, the pod waits, assumed on its node. Of PreBind, PreBind is called again (see PreBindWaitPlugin). Of
	// PlacementFeasible, more of the group has to fit.
	Wait
	// Skip: of PreFilter and PreScore, the plugin's Filter or Score is left out; of Bind, the next plugin binds.
	Skip
	// Pending: refused until something outside the scheduler has happened; that event skips the back-off.
	Pending
)

var codes = []string{"Success", "Error", "Unschedulable", "UnschedulableAndUnresolvable", "Wait", "Skip", "Pending"}

func (c Code) String() string {
	return codes[c]
}

// Reason is a refusal as data, for `trireme explain`: a name in lower camel case, and what it is about.
type Reason struct {
	Code       string
	Parameters map[string]string
}

// Status is the result of a plugin. Nil is a success.
type Status struct {
	code    Code
	reasons []string
	details []Reason
	err     error
	plugin  string
}

// NewStatus makes a Status. The reasons are counted over the nodes and joined into the pod's event.
func NewStatus(code Code, reasons ...string) *Status {
	return &Status{code: code, reasons: reasons}
}

// AsStatus makes an error a Status; nil stays nil.
func AsStatus(err error) *Status {
	if err == nil {
		return nil
	}
	return &Status{code: Error, err: err}
}

// WithReason adds the same refusal as data. Kubernetes' framework has no such method.
func (s *Status) WithReason(code string, parameters map[string]string) *Status {
	s.details = append(s.details, Reason{Code: code, Parameters: maps.Clone(parameters)})
	return s
}

// Details returns what WithReason added.
func (s *Status) Details() []Reason {
	if s == nil {
		return nil
	}
	return s.details
}

// WithError sets the error.
func (s *Status) WithError(err error) *Status {
	s.err = err
	return s
}

// Code returns the code; nil has Success.
func (s *Status) Code() Code {
	if s == nil {
		return Success
	}
	return s.code
}

// Message joins the reasons.
func (s *Status) Message() string {
	if s == nil {
		return ""
	}
	return strings.Join(s.Reasons(), ", ")
}

// SetPlugin sets the plugin's name. The SDK sets that of each status itself.
func (s *Status) SetPlugin(plugin string) {
	s.plugin = plugin
}

// WithPlugin sets the plugin's name and returns the status.
func (s *Status) WithPlugin(plugin string) *Status {
	s.SetPlugin(plugin)
	return s
}

// Plugin returns the plugin's name.
func (s *Status) Plugin() string {
	return s.plugin
}

// Reasons returns the reasons, the error first.
func (s *Status) Reasons() []string {
	if s == nil {
		return nil
	}
	if s.err != nil {
		return append([]string{s.err.Error()}, s.reasons...)
	}
	return s.reasons
}

// AppendReason adds a reason.
func (s *Status) AppendReason(reason string) {
	s.reasons = append(s.reasons, reason)
}

// IsSuccess says whether the status is nil or a success.
func (s *Status) IsSuccess() bool {
	return s.Code() == Success
}

// IsWait says whether the code is Wait.
func (s *Status) IsWait() bool {
	return s.Code() == Wait
}

// IsSkip says whether the code is Skip.
func (s *Status) IsSkip() bool {
	return s.Code() == Skip
}

// IsRejected says whether the status is a refusal.
func (s *Status) IsRejected() bool {
	code := s.Code()
	return code == Unschedulable || code == UnschedulableAndUnresolvable || code == Pending
}

// IsError says whether the code is Error.
func (s *Status) IsError() bool {
	return s.Code() == Error
}

// AsError returns the status as an error; nil for a success, a wait and a skip.
func (s *Status) AsError() error {
	if s.IsSuccess() || s.IsWait() || s.IsSkip() {
		return nil
	}
	if s.err != nil {
		return s.err
	}
	return errors.New(s.Message())
}

// Equal compares two statuses, errors by identity or text.
func (s *Status) Equal(x *Status) bool {
	if s == nil || x == nil {
		return s.IsSuccess() && x.IsSuccess()
	}
	same := s.code == x.code && s.plugin == x.plugin && slices.Equal(s.reasons, x.reasons)
	if s.err == nil || x.err == nil {
		return same && s.err == x.err
	}
	return same && (errors.Is(s.err, x.err) || errors.Is(x.err, s.err) || s.err.Error() == x.err.Error())
}

func (s *Status) String() string {
	return s.Message()
}

// Clone copies the status.
func (s *Status) Clone() *Status {
	return &Status{
		code: s.code, reasons: slices.Clone(s.reasons), details: slices.Clone(s.details), err: s.err, plugin: s.plugin,
	}
}
