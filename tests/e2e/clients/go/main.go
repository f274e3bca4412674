// The story that every client tells, with client-go's informers and controller-runtime: see run_clients.py.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	namespace = "client-go"
	group     = "go.clients.example.com"
)

var labels = map[string]string{"app": "web"}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	ctrl.SetLogger(zap.New())
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	must(err)
	must(clientGo(ctx, config))
	must(controllerRuntime(ctx, config))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func until(ctx context.Context, what string, check func() (bool, error)) error {
	condition := func(context.Context) (bool, error) { return check() }
	if err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, condition); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// clientGo follows pods by a shared informer, which sends and asks for protobuf where it can.
func clientGo(ctx context.Context, config *rest.Config) error {
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	nodes, err := set.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 3 {
		return fmt.Errorf("%d nodes, %w", len(nodes.Items), err)
	}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := set.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{}); err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(set, 0, informers.WithNamespace(namespace))
	pods := factory.Core().V1().Pods()
	var deleted sync.Map
	if _, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(obj any) {
			if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				deleted.Store(key, true)
			}
		},
	}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/web"}}},
			},
		},
	}
	if _, err := set.AppsV1().Deployments(namespace).Create(ctx, deployment, metav1.CreateOptions{}); err != nil {
		return err
	}
	running := func(wanted int) func() (bool, error) {
		return func() (bool, error) {
			count := 0
			for _, obj := range pods.Informer().GetStore().List() {
				if obj.(*corev1.Pod).Status.Phase == corev1.PodRunning {
					count++
				}
			}
			return count == wanted, nil
		}
	}
	if err := until(ctx, "two pods run", running(2)); err != nil {
		return err
	}
	scale, err := set.AppsV1().Deployments(namespace).GetScale(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	scale.Spec.Replicas = 3
	if _, err := set.AppsV1().Deployments(namespace).UpdateScale(ctx, "web", scale, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := until(ctx, "three pods run", running(3)); err != nil {
		return err
	}
	name := pods.Informer().GetStore().List()[0].(*corev1.Pod).Name
	text, err := set.CoreV1().Pods(namespace).GetLogs(name, &corev1.PodLogOptions{}).DoRaw(ctx)
	if err != nil || !strings.Contains(string(text), "is simulated") {
		return fmt.Errorf("the log is %q, %w", text, err)
	}
	if err := set.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return until(ctx, "all pods are gone", running(0))
}

func definition() *extensions.CustomResourceDefinition {
	keep := true
	return &extensions.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things." + group},
		Spec: extensions.CustomResourceDefinitionSpec{
			Group: group,
			Scope: extensions.ClusterScoped,
			Names: extensions.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"},
			Versions: []extensions.CustomResourceDefinitionVersion{{
				Name:         "v1",
				Served:       true,
				Storage:      true,
				Subresources: &extensions.CustomResourceSubresources{Status: &extensions.CustomResourceSubresourceStatus{}},
				Schema: &extensions.CustomResourceValidation{OpenAPIV3Schema: &extensions.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &keep,
					Properties: map[string]extensions.JSONSchemaProps{"spec": {
						Type: "object", Minimum: new(1.5),
						AdditionalProperties: &extensions.JSONSchemaPropsOrBool{Allows: true},
					}},
				}},
			}},
		},
	}
}

// controllerRuntime runs a controller that reports every Thing as ready.
func controllerRuntime(ctx context.Context, config *rest.Config) error {
	scheme := runtime.NewScheme()
	if err := clientscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := extensions.AddToScheme(scheme); err != nil {
		return err
	}
	direct, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	if err := direct.Create(ctx, definition()); err != nil {
		return err
	}
	if err := until(ctx, "the definition is established", func() (bool, error) {
		found := &extensions.CustomResourceDefinition{}
		err := direct.Get(ctx, client.ObjectKey{Name: "things." + group}, found)
		for _, one := range found.Status.Conditions {
			if one.Type == extensions.Established && one.Status == extensions.ConditionTrue {
				return true, err
			}
		}
		return false, err
	}); err != nil {
		return err
	}
	thing := &unstructured.Unstructured{}
	thing.SetAPIVersion(group + "/v1")
	thing.SetKind("Thing")
	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	reconciler := &reconciler{client: manager.GetClient()}
	if err := ctrl.NewControllerManagedBy(manager).Named("things").For(thing.DeepCopy()).Complete(reconciler); err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- manager.Start(ctx) }()
	thing.SetName("a")
	thing.Object["spec"] = map[string]any{"size": int64(1)}
	if err := direct.Create(ctx, thing); err != nil {
		return err
	}
	if err := until(ctx, "the controller has written the status", func() (bool, error) {
		if err := direct.Get(ctx, client.ObjectKey{Name: "a"}, thing); err != nil {
			return false, err
		}
		return reflect.DeepEqual(thing.Object["status"], map[string]any{"ready": true}), nil
	}); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return fmt.Errorf("the manager ended: %w", err)
	default:
	}
	return direct.Delete(ctx, definition())
}

type reconciler struct{ client client.Client }

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	thing := &unstructured.Unstructured{}
	thing.SetAPIVersion(group + "/v1")
	thing.SetKind("Thing")
	if err := r.client.Get(ctx, request.NamespacedName, thing); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if thing.Object["status"] != nil {
		return ctrl.Result{}, nil
	}
	thing.Object["status"] = map[string]any{"ready": true}
	return ctrl.Result{}, r.client.Status().Update(ctx, thing)
}
