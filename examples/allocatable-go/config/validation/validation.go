/*
Copyright 2020 The Kubernetes Authors.

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

// Package validation checks the arguments, from apis/config/validation of sigs.k8s.io/scheduler-plugins.
package validation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"trireme.dev/examples/allocatable-go/config"
)

var supportNodeResourcesMode = sets.New[string](
	string(config.Least),
	string(config.Most),
)

func validateResources(resources []config.ResourceSpec, p *field.Path) field.ErrorList {
	var allErrs field.ErrorList
	for i, resource := range resources {
		if resource.Weight <= 0 {
			msg := fmt.Sprintf("resource weight of %v should be a positive value, got :%v", resource.Name, resource.Weight)
			allErrs = append(allErrs, field.Invalid(p.Index(i).Child("weight"), resource.Weight, msg))
		}
	}
	return allErrs
}

func validateNodeResourcesModeType(mode config.ModeType, path *field.Path) *field.Error {
	if !supportNodeResourcesMode.Has(string(mode)) {
		return field.Invalid(path, mode, "invalid support ModeType")
	}
	return nil
}

// ValidateNodeResourcesAllocatableArgs returns all that is wrong with the arguments.
func ValidateNodeResourcesAllocatableArgs(args *config.NodeResourcesAllocatableArgs, path *field.Path) error {
	var allErrs field.ErrorList
	if args.Resources != nil {
		allErrs = append(allErrs, validateResources(args.Resources, path.Child("resources"))...)
	}
	if err := validateNodeResourcesModeType(args.Mode, path.Child("mode")); err != nil {
		allErrs = append(allErrs, err)
	}
	if len(allErrs) == 0 {
		return nil
	}
	return allErrs.ToAggregate()
}
