package main

import (
	"fmt"
	"log"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// variant says how values that have few possibilities are chosen; all others are distinct within an object.
type variant struct {
	// bit is the bit of a bool's position among the bools of its struct that is its value; -1 makes all true. Any two
	// bools of a struct differ in one of the variants, so that swapped numbers show.
	bit int
	// zeroPointers makes pointers to scalars point to zero, which must arrive as present.
	zeroPointers bool
}

var variants = map[string]variant{
	"full":          {bit: -1},
	"bools-0":       {bit: 0},
	"bools-1":       {bit: 1},
	"bools-2":       {bit: 2},
	"zero-pointers": {bit: -1, zeroPointers: true},
}

// fill sets every exported field of the struct behind pointer.
func fill(pointer any, variant variant) {
	f := &filler{variant: variant}
	f.value(reflect.ValueOf(pointer).Elem(), true)
}

type filler struct {
	variant variant
	count   int64
}

func (f *filler) next() int64 {
	f.count++
	return f.count
}

func (f *filler) value(v reflect.Value, boolean bool) {
	if f.special(v) {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", f.next()))
	case reflect.Int32, reflect.Int64:
		v.SetInt(f.next())
	case reflect.Bool:
		v.SetBool(boolean)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		if f.variant.zeroPointers && scalar(v.Type().Elem().Kind()) {
			return
		}
		f.value(v.Elem(), boolean)
	case reflect.Slice:
		f.slice(v)
	case reflect.Map:
		f.entries(v)
	case reflect.Struct:
		f.fields(v)
	default:
		log.Fatalf("cannot fill a %s", v.Type())
	}
}

func scalar(kind reflect.Kind) bool {
	switch kind {
	case reflect.String, reflect.Int32, reflect.Int64, reflect.Bool:
		return true
	}
	return false
}

// special fills the types whose form is not that of a struct.
func (f *filler) special(v reflect.Value) bool {
	switch target := v.Addr().Interface().(type) {
	case *metav1.TypeMeta, *metav1.FieldsV1, *corev1.PodTemplateSpec:
		// None is part of the messages.
	case *metav1.Time:
		target.Time = time.Unix(1_700_000_000+f.next(), 0).UTC()
	case *metav1.MicroTime:
		n := f.next()
		target.Time = time.Unix(1_700_000_000+n, 1000*n).UTC()
	case *resource.Quantity:
		n := f.next()
		*target = resource.MustParse(fmt.Sprintf([]string{"%d", "%dm", "%dMi"}[n%3], 1000+n))
	case *intstr.IntOrString:
		if n := f.next(); n%2 == 0 {
			*target = intstr.FromInt32(int32(n))
		} else {
			*target = intstr.FromString(fmt.Sprintf("%d%%", n))
		}
	case *runtime.RawExtension:
		target.Raw = []byte(fmt.Sprintf(`{"r%d":[1.5,null,{"x":"ü"}]}`, f.next()))
	default:
		return false
	}
	return true
}

// slice gives two elements, so that order shows, or one struct, so that objects stay readable.
func (f *filler) slice(v reflect.Value) {
	length := 2
	if v.Type().Elem().Kind() == reflect.Struct {
		length = 1
	}
	v.Set(reflect.MakeSlice(v.Type(), length, length))
	for i := range length {
		f.value(v.Index(i), f.variant.bit != i)
	}
}

func (f *filler) entries(v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	for range 2 {
		key := reflect.New(v.Type().Key()).Elem()
		f.value(key, true)
		value := reflect.New(v.Type().Elem()).Elem()
		f.value(value, true)
		v.SetMapIndex(key, value)
	}
}

func (f *filler) fields(v reflect.Value) {
	bools := 1
	for i := range v.NumField() {
		field := v.Field(i)
		if !field.CanSet() {
			continue
		}
		kind := field.Type().Kind()
		isBool := kind == reflect.Bool || kind == reflect.Pointer && field.Type().Elem().Kind() == reflect.Bool
		f.value(field, f.variant.bit < 0 || bools>>f.variant.bit&1 == 1)
		if isBool {
			bools++
		}
	}
}
