// Command kubernetes runs the servers of a Kubernetes control plane that tests need: etcd, the API server, the
// controllers and the default scheduler.
//
//	kubernetes etcd DATA CLIENT_PORT PEER_PORT
//	kubernetes apiserver FLAGS...
//	kubernetes controllers FLAGS...
//	kubernetes scheduler FLAGS...
package main

import (
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

const startLimit = 60 * time.Second

func main() {
	if len(os.Args) < 2 {
		fail("what is to be run is missing: etcd, apiserver, controllers or scheduler")
	}
	switch os.Args[1] {
	case "etcd":
		etcd(os.Args[2:])
	case "apiserver":
		run(apiserver.NewAPIServerCommand())
	case "controllers":
		run(controllers.NewControllerManagerCommand())
	case "scheduler":
		run(scheduler.NewSchedulerCommand())
	default:
		fail(fmt.Sprintf("%q is not known: etcd, apiserver, controllers or scheduler", os.Args[1]))
	}
}

// run ends the process with the exit code of a command of Kubernetes.
func run(command *cobra.Command) {
	os.Args = append(os.Args[:1], os.Args[2:]...)
	os.Exit(cli.Run(command))
}

func fail(reason string) {
	fmt.Fprintln(os.Stderr, "kubernetes:", reason)
	os.Exit(2)
}

func loopback(port string) url.URL {
	return url.URL{Scheme: "http", Host: "127.0.0.1:" + port}
}

// etcd serves one member on loopback until SIGTERM. It does not wait for the disk: a test's data need not
// survive a loss of power, and they do survive the kill of the process.
func etcd(args []string) {
	if len(args) != 3 {
		fail("etcd needs DATA CLIENT_PORT PEER_PORT")
	}
	settings := embed.NewConfig()
	settings.Dir = args[0]
	settings.LogLevel = "warn"
	settings.UnsafeNoFsync = true
	settings.ListenClientUrls = []url.URL{loopback(args[1])}
	settings.AdvertiseClientUrls = settings.ListenClientUrls
	settings.ListenPeerUrls = []url.URL{loopback(args[2])}
	settings.AdvertisePeerUrls = settings.ListenPeerUrls
	settings.InitialCluster = settings.InitialClusterFromName(settings.Name)
	server, err := embed.StartEtcd(settings)
	if err != nil {
		fail(err.Error())
	}
	defer server.Close()
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(startLimit):
		fail("etcd is not ready after " + startLimit.String())
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	select {
	case <-stop:
	case err := <-server.Err():
		fail(err.Error())
	}
}
