// Command informer tells on standard output what client-go's shared informers tell, a line of JSON for each
// event, until its standard input ends: then the objects that their stores have.
package main

import (
	"encoding/json"
	"io"
	"os"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

type line struct {
	Event   string `json:"event"`
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	UID     string `json:"uid"`
	Version string `json:"version"`
	// Whether nothing but the version has changed.
	Same bool `json:"same"`
}

var (
	mutex sync.Mutex
	out   = json.NewEncoder(os.Stdout)
)

func tell(kind, event string, found any) {
	told(line{Event: event, Kind: kind}, found)
}

func told(each line, found any) {
	if gone, ok := found.(cache.DeletedFinalStateUnknown); ok {
		found = gone.Obj
	}
	of := found.(metav1.Object)
	each.Name, each.UID, each.Version = of.GetName(), string(of.GetUID()), of.GetResourceVersion()
	mutex.Lock()
	defer mutex.Unlock()
	out.Encode(each)
}

func update(kind string, before, now any) {
	each := line{Event: "modified", Kind: kind, Same: same(before, now)}
	told(each, now)
}

func same(before, now any) bool {
	plain := func(value any) map[string]any {
		text, _ := json.Marshal(value)
		found := map[string]any{}
		json.Unmarshal(text, &found)
		delete(found["metadata"].(map[string]any), "resourceVersion")
		return found
	}
	return reflect.DeepEqual(plain(before), plain(now))
}

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		panic(err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(
		kubernetes.NewForConfigOrDie(config), 0, informers.WithNamespace(os.Args[2]))
	all := map[string]cache.SharedIndexInformer{
		"Deployment": factory.Apps().V1().Deployments().Informer(),
		"Job":        factory.Batch().V1().Jobs().Informer(),
		"Pod":        factory.Core().V1().Pods().Informer(),
	}
	for kind, informer := range all {
		informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(found any) { tell(kind, "added", found) },
			UpdateFunc: func(before, now any) { update(kind, before, now) },
			DeleteFunc: func(found any) { tell(kind, "deleted", found) },
		})
	}
	stop := make(chan struct{})
	factory.Start(stop)
	factory.WaitForCacheSync(stop)
	mutex.Lock()
	out.Encode(line{Event: "synced"})
	mutex.Unlock()
	io.Copy(io.Discard, os.Stdin)
	for kind, informer := range all {
		for _, found := range informer.GetStore().List() {
			tell(kind, "held", found)
		}
	}
	close(stop)
}
