//go:build cluster

package peloton

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"peloton.internal/client/api/v0/job"
	"peloton.internal/client/api/v1alpha/pod"
)

const atOnce = 32

func figure(t *testing.T, name string) int {
	t.Helper()
	value, err := strconv.Atoi(os.Getenv("PELOTON_FIGURES_" + name))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// TestFigures is called by `python -m benchmarks.clients`: calls per second beside plain stubs, in short rounds
// that take turns; a large job, watched to its end.
func TestFigures(t *testing.T) {
	idle := os.Getenv("PELOTON_FIGURES_IDLE")
	if idle == "" {
		t.Skip("PELOTON_FIGURES_IDLE has no address of a server")
	}
	for _, target := range [][2]string{
		{"a server that does nothing", idle}, {"the job manager", os.Getenv("JOBMGR_URL")},
	} {
		compareCalls(t, target[0], target[1])
	}
	if tasks := figure(t, "TASKS"); tasks > 0 {
		watchJob(t, tasks)
	}
}

func compareCalls(t *testing.T, what, target string) {
	client := connect(t, Config{Caller: "bench", JobManager: target})
	conn, err := grpc.NewClient("dns:///"+target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessageBytes), grpc.MaxCallSendMsgSize(MaxMessageBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stub := job.NewJobManagerClient(conn)
	byClient := func() error {
		_, err := client.Jobs.GetActiveJobs(context.Background(), &job.GetActiveJobsRequest{})
		return err
	}
	byStub := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), DefaultTimeout)
		defer cancel()
		ctx = metadata.AppendToOutgoingContext(ctx, "rpc-caller", "bench", "rpc-service", "peloton-jobmgr",
			"rpc-encoding", "proto", "peloton-answer-bytes", strconv.Itoa(MaxMessageBytes))
		_, err := stub.GetActiveJobs(ctx, &job.GetActiveJobsRequest{})
		return err
	}
	for _, callers := range []int{1, atOnce} {
		var ours, plain, pairs []float64
		for round := range figure(t, "ROUNDS") + 1 {
			calls := figure(t, "CALLS")
			var rate, beside float64
			if round%2 == 0 { // what one leaves to the next counts for both
				beside = timed(t, calls, callers, byStub)
			}
			rate = timed(t, calls, callers, byClient)
			if round%2 == 1 {
				beside = timed(t, calls, callers, byStub)
			}
			if round > 0 { // the first one opens the connections
				ours, plain, pairs = append(ours, rate), append(plain, beside), append(pairs, rate/beside)
			}
		}
		fmt.Printf("go: %d at once, %s: %.0f calls/s, plain stubs %.0f; pairs: %.1f%%\n",
			callers, what, median(ours), median(plain), 100*median(pairs))
	}
}

// timed returns calls per second.
func timed(t *testing.T, calls, callers int, call func() error) float64 {
	began := time.Now()
	var group sync.WaitGroup
	for caller := range callers {
		spawn(&group, func() {
			for number := caller; number < calls; number += callers {
				if err := call(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	return float64(calls) / time.Since(began).Seconds()
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

func watchJob(t *testing.T, tasks int) {
	client, ctx := fromEnv(t), within(t, 10*time.Minute)
	began := time.Now()
	id, err := client.CreateJob(ctx, os.Getenv("PELOTON_TEST_POOL"), spec(t, "true", tasks))
	if err != nil {
		t.Fatal(err)
	}
	succeeded := map[string]bool{}
	for event, err := range client.WatchPods(ctx, id) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Pod.GetStatus().GetState() == pod.PodState_POD_STATE_SUCCEEDED {
			succeeded[event.Name] = true
		}
		if len(succeeded) == tasks {
			break
		}
	}
	end, err := client.Wait(ctx, id, nil)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("go: a job of %d watched to its end, %s, %d pods succeeded, in %.1f s\n",
		tasks, end.GetState(), len(succeeded), time.Since(began).Seconds())
}
