/*
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

// Package schedutil has functions of k8s.io/kubernetes/pkg/scheduler/util that plugins use.
package schedutil

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// IsScalarResourceName says whether the resource is an extended one, huge pages, a native one or an attachable volume.
func IsScalarResourceName(name v1.ResourceName) bool {
	text := string(name)
	native := !strings.Contains(text, "/") || strings.Contains(text, v1.ResourceDefaultNamespacePrefix)
	extended := !native && !strings.HasPrefix(text, v1.DefaultResourceRequestsPrefix)
	return extended || strings.HasPrefix(text, v1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(text, v1.ResourceAttachableVolumesPrefix) ||
		strings.Contains(text, v1.ResourceDefaultNamespacePrefix)
}
