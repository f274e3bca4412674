package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/metrics/legacyregistry"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// The description's text alone names a metric without samples, and its labels.
var described = regexp.MustCompile(`^Desc\{fqName: "(\w+)", help: "(?:\[(\w+)\] )?.*", constLabels: .*, variableLabels: \{(.*)\}\}$`)

// A surface is what an administrator can set of kube-scheduler, and measure of it, by name.
type surface struct {
	// The history of each gate, as in Trireme's own table.
	Gates        map[string]string   `json:"gates"`
	Dependencies map[string][]string `json:"dependencies"`
	// The type and default of each flag.
	Flags map[string]string `json:"flags"`
	// The type of each field of the configuration file and of the arguments of plugins, by its path.
	Fields map[string]string `json:"fields"`
	// The stability and labels of each metric that is registered with the gates that are on.
	Metrics map[string]string `json:"metrics"`
}

func printSurface() error {
	command := app.NewSchedulerCommand()
	out := surface{
		map[string]string{}, map[string][]string{}, map[string]string{}, map[string]string{}, map[string]string{},
	}
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		out.Flags[flag.Name] = fmt.Sprintf("%s %s", flag.Value.Type(), flag.DefValue)
	})
	// Its help lists all gates, and says nothing worth comparing beside that.
	out.Flags["feature-gates"] = "mapStringBool"
	gates := utilfeature.DefaultMutableFeatureGate
	for name, specs := range gates.GetAllVersioned() {
		out.Gates[string(name)] = history(specs)
	}
	for name, needed := range gates.Dependencies() {
		for _, each := range needed {
			out.Dependencies[string(name)] = append(out.Dependencies[string(name)], string(each))
		}
		slices.Sort(out.Dependencies[string(name)])
	}
	addFields(out.Fields, "", reflect.TypeFor[configv1.KubeSchedulerConfiguration]())
	for _, args := range []any{
		configv1.DefaultPreemptionArgs{}, configv1.DynamicResourcesArgs{}, configv1.InterPodAffinityArgs{},
		configv1.NodeAffinityArgs{}, configv1.NodeResourcesBalancedAllocationArgs{}, configv1.NodeResourcesFitArgs{},
		configv1.PodTopologySpreadArgs{}, configv1.VolumeBindingArgs{},
	} {
		kind := reflect.TypeOf(args)
		addFields(out.Fields, kind.Name(), kind)
	}
	addMetrics(out.Metrics)
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(out)
}

func addMetrics(into map[string]string) {
	schedulermetrics.Register()
	found := make(chan *prometheus.Desc)
	go func() {
		legacyregistry.Registerer().(prometheus.Collector).Describe(found)
		close(found)
	}()
	for each := range found {
		if parts := described.FindStringSubmatch(each.String()); parts != nil {
			into[parts[1]] = strings.TrimSpace(parts[2] + " {" + parts[3] + "}")
		}
	}
}

func history(specs featuregate.VersionedSpecs) string {
	stages := make([]string, 0, len(specs))
	for _, spec := range specs {
		stage, state := string(spec.PreRelease), "off"
		if stage == "" {
			stage = "GA"
		}
		if spec.Default {
			state = "on"
		}
		if spec.LockToDefault {
			state += " locked"
		}
		if spec.MinCompatibilityVersion != nil {
			state += " from " + majorMinor(spec.MinCompatibilityVersion.String())
		}
		stages = append(stages, fmt.Sprintf("%s %s %s", majorMinor(spec.Version.String()), stage, state))
	}
	return strings.Join(stages, "; ")
}

func majorMinor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return parts[0] + "." + parts[1]
}

func addFields(into map[string]string, path string, kind reflect.Type) {
	for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
		kind = kind.Elem()
	}
	if kind.Kind() != reflect.Struct || !strings.Contains(kind.PkgPath(), "config/v1") {
		return
	}
	for i := range kind.NumField() {
		field := kind.Field(i)
		name := strings.Split(field.Tag.Get("json"), ",")[0]
		if field.Anonymous && name == "" {
			addFields(into, path, field.Type)
			continue
		}
		inner := strings.TrimPrefix(path+"."+name, ".")
		into[inner] = field.Type.String()
		addFields(into, inner, field.Type)
	}
}
