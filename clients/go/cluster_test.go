//go:build cluster

package peloton

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"peloton.internal/client/api/v0/job"
	"peloton.internal/client/api/v1alpha/job/stateless"
	"peloton.internal/client/api/v1alpha/pod"
)

// These tests need a minicluster, found by the environment as the command line finds it; PELOTON_TEST_POOL is the
// path of a pool, PELOTON_TEST_CONTROL a program that ends daemons and starts them again.

const patience = 3 * time.Minute

func fromEnv(t *testing.T) *Client {
	t.Helper()
	config, err := ConfigFromEnv("go-tests")
	if err != nil {
		t.Fatal(err)
	}
	config.Timeout = time.Minute
	return connect(t, config)
}

func control(t *testing.T, arguments ...string) {
	t.Helper()
	command := exec.Command(os.Getenv("PELOTON_TEST_CONTROL"), arguments...)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", arguments, err, output)
	}
}

func spec(t *testing.T, command string, instances int) *job.JobConfig {
	t.Helper()
	config := &job.JobConfig{}
	err := ParseSpec([]byte(`
name: go
instanceCount: `+strconv.Itoa(instances)+`
sla: {preemptible: true}
defaultConfig:
  resource: {cpuLimit: 0.1, memLimitMb: 16, diskLimitMb: 8}
  command: {shell: true, value: "`+command+`"}
`), "spec", config)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func TestClusterJob(t *testing.T) {
	client, ctx := fromEnv(t), within(t, patience)
	id, err := client.CreateJob(ctx, os.Getenv("PELOTON_TEST_POOL"), spec(t, "echo one; sleep 1; echo two", 3))
	if err != nil {
		t.Fatal(err)
	}
	log, err := client.Logs(ctx, id, 1, LogOptions{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(log)
	if err != nil || string(text) != "one\ntwo\n" {
		t.Errorf("%q %v", text, err)
	}
	steps := 0
	end, err := client.Wait(ctx, id, func(*job.RuntimeInfo) { steps++ })
	if err != nil || end.GetState() != job.JobState_SUCCEEDED || steps == 0 {
		t.Fatal(end, err, steps)
	}
	count := 0
	for instance, err := range client.Instances(ctx, id) {
		if err != nil || int(instance.GetInstanceId()) != count {
			t.Fatal(instance, err)
		}
		count++
	}
	if count != 3 {
		t.Error(count)
	}
}

func TestClusterErrors(t *testing.T) {
	client, ctx := fromEnv(t), within(t, patience)
	if _, err := client.Job(ctx, "00000000-0000-4000-8000-000000000000"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	_, err := client.CreateJob(ctx, os.Getenv("PELOTON_TEST_POOL"), spec(t, "true", 0))
	var typed *Error
	if !errors.As(err, &typed) || !errors.Is(err, ErrInvalidArgument) || !strings.Contains(typed.Field, "instanceCount") || typed.Value != "0" {
		t.Errorf("%#v", err)
	}
	if _, err := client.PoolID(ctx, "/nowhere"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

func TestClusterServiceIsWatched(t *testing.T) {
	client, ctx := fromEnv(t), within(t, patience)
	service := &stateless.JobSpec{}
	if err := ParseSpec([]byte(`
name: go-service
instance_count: 1
default_spec:
  containers:
  - resource: {cpu_limit: 0.1, mem_limit_mb: 16, disk_limit_mb: 8}
    entrypoint: {value: sleep 1000}
  mesos_spec: {shell: true}
`), "spec", service); err != nil {
		t.Fatal(err)
	}
	id, err := client.CreateService(ctx, os.Getenv("PELOTON_TEST_POOL"), service)
	if err != nil {
		t.Fatal(err)
	}
	for event, err := range client.WatchServices(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if event.ID == id && event.Service.GetStatus().GetState() == stateless.JobState_JOB_STATE_RUNNING {
			return
		}
	}
}

// Each way of losing the leader happens under 200 calls of four kinds and three open watches.
func TestClusterLosesItsLeader(t *testing.T) {
	client := fromEnv(t)
	ctx := within(t, 2*patience)
	pool := os.Getenv("PELOTON_TEST_POOL")
	watched, err := client.CreateJob(ctx, pool, spec(t, "sleep 20", 4))
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 3 {
		group.Add(1)
		go func() {
			defer group.Done()
			succeeded := map[string]bool{}
			for event, err := range client.WatchPods(ctx, watched) {
				if err != nil {
					t.Error(err)
					return
				}
				if event.Pod.GetStatus().GetState() == pod.PodState_POD_STATE_SUCCEEDED {
					succeeded[event.Name] = true
				}
				if len(succeeded) == 4 {
					return
				}
			}
		}()
	}
	var mu sync.Mutex
	var created []string
	for worker := range 10 {
		group.Add(1)
		go func() {
			defer group.Done()
			for call := range 20 {
				if worker%2 == 0 {
					if _, err := client.Job(ctx, watched); err != nil {
						t.Error(err)
					}
					continue
				}
				id, err := client.CreateJob(ctx, pool, spec(t, "true", 1))
				if err != nil {
					t.Error(call, err)
					continue
				}
				mu.Lock()
				created = append(created, id)
				mu.Unlock()
				if !pause(ctx, 100*time.Millisecond) {
					return
				}
			}
		}()
	}
	control(t, os.Getenv("PELOTON_TEST_LOSS"), "jobmgr")
	group.Wait()
	control(t, "restore", "jobmgr")
	if len(created) != 100 {
		t.Error(len(created), "jobs")
	}
	for _, id := range created {
		if end, err := client.Wait(ctx, id, nil); err != nil || end.GetState() != job.JobState_SUCCEEDED {
			t.Error(id, end, err)
		}
	}
}
