//go:build cluster

package peloton

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/status"

	apiv0 "peloton.internal/client/api/v0"
	"peloton.internal/client/api/v0/job"
	"peloton.internal/client/api/v0/query"
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

func service(t *testing.T, name string) *stateless.JobSpec {
	t.Helper()
	made := &stateless.JobSpec{}
	if err := ParseSpec([]byte(`
name: `+name+`
instance_count: 1
default_spec:
  containers:
  - resource: {cpu_limit: 0.1, mem_limit_mb: 16, disk_limit_mb: 8}
    entrypoint: {value: sleep 1000}
  mesos_spec: {shell: true}
`), "spec", made); err != nil {
		t.Fatal(err)
	}
	return made
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
	id, err := client.CreateService(ctx, os.Getenv("PELOTON_TEST_POOL"), service(t, "go-service"))
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

func TestClusterIsFoundByItsName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clusters.json")
	text := fmt.Sprintf(`{"clusters": [{"clusterName": "here", "zkURL": "zk://%s"}]}`, os.Getenv("ZK_SERVERS"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	client := connect(t, Config{Caller: "go-tests", Cluster: "here", ClusterFiles: []string{file}})
	if _, err := client.PoolID(within(t, patience), os.Getenv("PELOTON_TEST_POOL")); err != nil {
		t.Error(err)
	}
}

// lossTest is 200 calls and three watches while leaders are lost.
type lossTest struct {
	t       *testing.T
	ctx     context.Context
	client  *Client
	pool    string
	watched string
	service *stateless.JobSpec
	begun   sync.WaitGroup // until some calls have been answered
	lost    chan struct{}  // closed when the leaders are lost

	mu       sync.Mutex
	created  []string
	answered map[string]bool // by the name of a job that was created without an id
}

const (
	callers        = 10
	callsPerCaller = 20
)

// The leaders of two daemons are lost under 200 calls of four kinds and three open watches: some calls are
// answered before that, some are under way, some are made when nobody leads.
func TestClusterLosesItsLeaders(t *testing.T) {
	test := &lossTest{
		t: t, ctx: within(t, 3*patience), client: fromEnv(t), pool: os.Getenv("PELOTON_TEST_POOL"),
		lost: make(chan struct{}), answered: map[string]bool{}, service: service(t, "go-"+newID()),
	}
	var err error
	if test.watched, err = test.client.CreateJob(test.ctx, test.pool, spec(t, "sleep 20", 4)); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	spawn(&group, test.watchPods)
	spawn(&group, test.watchPods)
	spawn(&group, test.watchServices)
	spawn(&group, test.createService)
	prefix := "once-" + newID() + "-"
	test.begun.Add(callers)
	for caller := range callers {
		spawn(&group, func() { test.call(caller, prefix) })
	}
	test.begun.Wait()
	control(t, os.Getenv("PELOTON_TEST_LOSS"), "jobmgr", "resmgr")
	close(test.lost)
	group.Wait()
	control(t, "restore", "jobmgr", "resmgr")
	if len(test.created) != callers/2*callsPerCaller/2 {
		t.Error(len(test.created), "jobs")
	}
	for _, id := range test.created {
		if end, err := test.client.Wait(test.ctx, id, nil); err != nil || end.GetState() != job.JobState_SUCCEEDED {
			t.Error(id, end, err)
		}
	}
	test.checkOnce(prefix)
}

func (l *lossTest) call(caller int, prefix string) {
	for call := range callsPerCaller {
		switch {
		case call == callsPerCaller/4:
			l.begun.Done()
		case call == callsPerCaller*3/4:
			<-l.lost
		}
		switch {
		case caller%2 == 0:
			if _, err := l.client.Job(l.ctx, l.watched); err != nil {
				l.t.Error(err)
			}
		case call%2 == 0:
			l.create()
		default:
			l.createOnce(fmt.Sprintf("%s%d-%d", prefix, caller, call))
		}
	}
}

func (l *lossTest) create() {
	id, err := l.client.CreateJob(l.ctx, l.pool, spec(l.t, "true", 1))
	if err != nil {
		l.t.Error(err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.created = append(l.created, id)
}

// createOnce makes a call that may not be repeated: it has no id.
func (l *lossTest) createOnce(name string) {
	pool, err := l.client.PoolID(l.ctx, l.pool)
	if err != nil {
		l.t.Error(err)
		return
	}
	config := spec(l.t, "true", 1)
	config.Name, config.RespoolID = name, &apiv0.ResourcePoolID{Value: pool}
	answer, err := l.client.Jobs.Create(l.ctx, &job.CreateRequest{Config: config})
	if err == nil {
		err = Check(answer)
	}
	if err != nil && !passing(err) {
		l.t.Error(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered[name] = err == nil
}

// checkOnce looks whether what was answered is there once, and nothing twice.
func (l *lossTest) checkOnce(prefix string) {
	answer, err := l.client.Jobs.Query(l.ctx, &job.QueryRequest{
		Spec: &job.QuerySpec{Name: prefix + "*", Pagination: &query.PaginationSpec{Limit: 100}}, SummaryOnly: true,
	})
	if err != nil || Check(answer) != nil {
		l.t.Fatal(answer, err)
	}
	there := map[string]int{}
	for _, one := range answer.GetResults() {
		there[one.GetName()]++
	}
	unanswered := 0
	for name, answered := range l.answered {
		if count := there[name]; count > 1 || answered && count != 1 {
			l.t.Errorf("%s: answered %v, there %d times", name, answered, count)
		}
		if !answered {
			unanswered++
		}
	}
	l.t.Logf("%d created once, %d of them without an answer", len(there), unanswered)
	if len(l.answered) != callers/2*callsPerCaller/2 || len(there) == 0 {
		l.t.Error(len(l.answered), "calls,", len(there), "jobs")
	}
}

func (l *lossTest) watchPods() {
	succeeded := map[string]bool{}
	for event, err := range l.client.WatchPods(l.ctx, l.watched) {
		if err != nil {
			l.t.Error(err)
			return
		}
		if event.Pod.GetStatus().GetState() == pod.PodState_POD_STATE_SUCCEEDED {
			succeeded[event.Name] = true
		}
		if len(succeeded) == 4 {
			return
		}
	}
}

// watchServices waits for a service that is made when the leaders are lost.
func (l *lossTest) watchServices() {
	for event, err := range l.client.WatchServices(l.ctx, nil) {
		if err != nil {
			l.t.Error(err)
			return
		}
		if event.Service.GetName() == l.service.GetName() {
			return
		}
	}
}

func (l *lossTest) createService() {
	<-l.lost
	if _, err := l.client.CreateService(l.ctx, l.pool, l.service); err != nil {
		l.t.Error(err)
	}
}

// TestClusterTakeover is the program of `tests/clients/takeover.py`: calls until a file is there, a line for each.
func TestClusterTakeover(t *testing.T) {
	stop := os.Getenv("PELOTON_TAKEOVER_STOP")
	if stop == "" {
		t.Skip("PELOTON_TAKEOVER_STOP has no path of a file")
	}
	config, err := ConfigFromEnv("takeover")
	if err != nil {
		t.Fatal(err)
	}
	client := connect(t, config)
	seconds := func() float64 { return float64(time.Now().UnixMicro()) / 1e6 }
	var group sync.WaitGroup
	for caller := range 8 {
		spawn(&group, func() {
			for {
				if _, err := os.Stat(stop); err == nil {
					return
				}
				start, code := seconds(), "OK"
				if _, err := client.Jobs.GetActiveJobs(context.Background(), &job.GetActiveJobsRequest{}); err != nil {
					code = status.Code(err).String()
				}
				fmt.Printf("takeover: call %d %.6f %.6f %s\n", caller, start, seconds(), code)
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	group.Wait()
	fmt.Println("takeover: end")
}
