// Also change: internal/trireme/sdk/configuring.py (which names the other languages' files).

package trireme

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"trireme.dev/sdk/go/framework"
	"trireme.dev/sdk/go/triremev1"
)

// Factory makes a plugin for one profile's arguments, a JSON object. `ctx` ends with the process. It is called again when
// the configuration changes, and once with `{}` at the start. An error refuses the configuration: FieldErrors, and errors
// of k8s.io/apimachinery's field package, name their fields.
type Factory func(ctx context.Context, args []byte, handle framework.Handle) (framework.Plugin, error)

// FieldError is one error in a plugin's arguments.
type FieldError struct {
	// Field is the path from the arguments on, e.g. `zones[2].name`; empty: the arguments as a whole.
	Field string
	// Message says in one line what is wrong.
	Message string
}

// FieldErrors refuses a configuration with all its errors.
type FieldErrors []FieldError

func (e FieldErrors) Error() string {
	texts := make([]string, len(e))
	for i, one := range e {
		texts[i] = one.path() + ": " + one.Message
	}
	return strings.Join(texts, "; ")
}

func (e FieldError) path() string {
	if e.Field == "" {
		return "args"
	}
	return "args." + e.Field
}

// WithArgs is a Factory of a function that gets the arguments decoded. Fields that A lacks are refused. Defaults are
// values that `defaults` fills in before decoding; nil: none.
func WithArgs[A any](
	make func(ctx context.Context, args *A, handle framework.Handle) (framework.Plugin, error), defaults func(*A),
) Factory {
	return func(ctx context.Context, data []byte, handle framework.Handle) (framework.Plugin, error) {
		args := new(A)
		if defaults != nil {
			defaults(args)
		}
		if err := decode(data, args); err != nil {
			return nil, err
		}
		return make(ctx, args, handle)
	}
}

// FromFramework is a Factory of an in-tree plugin's: `args` makes the empty arguments, with defaults filled in.
func FromFramework(factory framework.PluginFactory, args func() runtime.Object) Factory {
	return func(ctx context.Context, data []byte, handle framework.Handle) (framework.Plugin, error) {
		object := args()
		if err := decode(data, object); err != nil {
			return nil, err
		}
		return factory(ctx, object, handle)
	}
}

// decode reads arguments strictly.
func decode(data []byte, into any) error {
	strict, err := kjson.UnmarshalStrict(data, into, kjson.DisallowUnknownFields, kjson.DisallowDuplicateFields)
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return FieldErrors{{Field: kind.Field, Message: fmt.Sprintf("must be %s, not %s", jsonKind(kind), kind.Value)}}
	}
	if err != nil {
		return FieldErrors{{Message: fmt.Sprintf("must be an object: %v", err)}}
	}
	var found FieldErrors
	for _, one := range strict {
		if named, ok := one.(kjson.FieldError); ok {
			message := strings.TrimSuffix(one.Error(), fmt.Sprintf(" %q", named.FieldPath()))
			found = append(found, FieldError{Field: named.FieldPath(), Message: message})
		} else {
			found = append(found, FieldError{Message: one.Error()})
		}
	}
	if found != nil {
		return found
	}
	return nil
}

// jsonKind is what JSON calls the type that a field has.
func jsonKind(e *json.UnmarshalTypeError) string {
	switch kind := e.Type.Kind().String(); {
	case kind == "string":
		return "a string"
	case kind == "bool":
		return "true or false"
	case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"):
		return "a whole number"
	case strings.HasPrefix(kind, "float"):
		return "a number"
	case kind == "slice", kind == "array":
		return "a list"
	default:
		return "an object"
	}
}

// fieldErrors makes the answer to arguments that were refused.
func fieldErrors(err error) []*triremev1.FieldError {
	var list FieldErrors
	if errors.As(err, &list) {
		out := make([]*triremev1.FieldError, len(list))
		for i, one := range list {
			out[i] = &triremev1.FieldError{Field: one.path(), Message: oneLine(one.Message)}
		}
		return out
	}
	var several utilerrors.Aggregate
	if errors.As(err, &several) {
		var out []*triremev1.FieldError
		for _, one := range several.Errors() {
			out = append(out, fieldErrors(one)...)
		}
		return out
	}
	var one *field.Error
	if errors.As(err, &one) {
		return []*triremev1.FieldError{{Field: FieldError{Field: one.Field}.path(), Message: oneLine(one.ErrorBody())}}
	}
	return []*triremev1.FieldError{{Field: "args", Message: oneLine(err.Error())}}
}

func oneLine(text string) string {
	return strings.Join(strings.Fields(text), " ")
}
