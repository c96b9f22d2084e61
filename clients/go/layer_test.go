package peloton

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	apiv0 "peloton.internal/client/api/v0"
	"peloton.internal/client/api/v0/job"
	"peloton.internal/client/api/v0/task"
	"peloton.internal/client/api/v1alpha"
	services "peloton.internal/client/api/v1alpha/job/stateless/svc"
	"peloton.internal/client/api/v1alpha/pod"
	watches "peloton.internal/client/api/v1alpha/watch/svc"
)

func TestSpec(t *testing.T) {
	config := &job.JobConfig{}
	err := ParseSpec([]byte(`
name: test
instance_count: 3
type: service
placementStrategy: pack_host
sla: {preemptible: yes, priority: 0x10}
labels:
- {key: a, value: 1.0}
defaultConfig: &default
  resource: {cpuLimit: 0.5, memLimitMb: 1e3}
  command: {shell: true, value: "true"}
instanceConfig:
  2: *default
`), "job.yaml", config)
	if err != nil {
		t.Fatal(err)
	}
	if config.GetInstanceCount() != 3 || config.GetType() != job.JobType_SERVICE || !config.GetSla().GetPreemptible() ||
		config.GetSla().GetPriority() != 16 || config.GetLabels()[0].GetValue() != "1.0" ||
		config.GetPlacementStrategy() != job.PlacementStrategy_PLACEMENT_STRATEGY_PACK_HOST ||
		config.GetInstanceConfig()[2].GetResource().GetMemLimitMb() != 1000 {
		t.Error(config)
	}
}

func TestSpecsThatAreWrong(t *testing.T) {
	for text, want := range map[string]string{
		"name: a\ninstanceCount: many":                `job.yaml:2: instanceCount: "many" is not a whole number from 0 to 4294967295`,
		"instanceCount: -1":                           `job.yaml:1: instanceCount: "-1" is not a whole number`,
		"sla: {prioritty: 1}":                         `job.yaml:1: sla.prioritty: "prioritty" is not a field of SlaConfig`,
		"type: cron":                                  `type: "cron" is not one of BATCH, SERVICE, DAEMON`,
		"labels: {a: b}":                              `labels: "a mapping" is not a list`,
		"name: a\nname: b":                            `name: "name" is not given once`,
		"sla: {preemptible: 1}":                       `sla.preemptible: "1" is not true or false`,
		"defaultConfig: {resource: {cpuLimit: .inf}}": `cpuLimit: ".inf" is not a number`,
		"a: [":  "is not YAML",
		"":      "the file is empty",
		"- one": "is not a mapping",
	} {
		err := ParseSpec([]byte(text), "job.yaml", &job.JobConfig{})
		if !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestWaitReportsProgressAndOutlivesALeader(t *testing.T) {
	fake := &fakeServer{}
	states := []job.JobState{job.JobState_PENDING, job.JobState_RUNNING, job.JobState_RUNNING, job.JobState_SUCCEEDED}
	fake.get = func(ctx context.Context, request *job.GetRequest) (*job.GetResponse, error) {
		call := int(fake.calls.Load()) - 1
		if call == 1 {
			return nil, status.Error(codes.ResourceExhausted, "slow down")
		}
		return answered(states[min(call, 3)])(ctx, request)
	}
	serve(t, fake)
	client := connect(t, Config{JobManager: fake.address})
	var seen []job.JobState
	progress := func(r *job.RuntimeInfo) { seen = append(seen, r.GetState()) }
	if _, err := client.Wait(within(t, minute), "1", progress); !errors.Is(err, ErrResourceExhausted) {
		t.Fatal(err)
	}
	end, err := client.Wait(within(t, minute), "1", progress)
	if err != nil || end.GetState() != job.JobState_SUCCEEDED || len(seen) != 3 {
		t.Fatal(end, err, seen)
	}
}

func podAt(name string, version uint64, state pod.PodState) *pod.PodSummary {
	return &pod.PodSummary{
		PodName: &apiv1alpha.PodName{Value: name},
		Status:  &pod.PodStatus{State: state, Revision: &apiv1alpha.Revision{Version: version}},
	}
}

func TestFindJobByNameOrByTheBeginningOfItsID(t *testing.T) {
	const first, second = "11112222-0000-4000-8000-000000000000", "11113333-0000-4000-8000-000000000000"
	fake := &fakeServer{}
	var asked *job.QuerySpec
	fake.query = func(ctx context.Context, request *job.QueryRequest) (*job.QueryResponse, error) {
		asked = request.GetSpec()
		return &job.QueryResponse{Results: []*job.JobSummary{
			{Id: &apiv0.JobID{Value: first}, Name: "api"},
			{Id: &apiv0.JobID{Value: second}, Name: "1111"},
			{Id: &apiv0.JobID{Value: "22223333-0000-4000-8000-000000000000"}, Name: "other"}, // an old server's
		}}, nil
	}
	serve(t, fake)
	client := connect(t, Config{JobManager: fake.address})
	for reference, want := range map[string]string{"api": first, "11112": first, "11113333-0000": second, "1111": ""} {
		id, err := client.FindJob(within(t, minute), reference, "/team")
		if id != want || (want == "") != errors.Is(err, ErrFailedPrecondition) {
			t.Errorf("%q: %q, %v", reference, id, err)
		}
	}
	if asked.GetRespool().GetValue() != "/team" || !strings.Contains(asked.String(), "reference:") {
		t.Error(asked)
	}
	for _, reference := range []string{"111", "ap", "none"} {
		_, err := client.FindJob(within(t, minute), reference, "")
		if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), `no job has the name "`+reference+`"`) {
			t.Errorf("%q: %v", reference, err)
		}
	}
}

func TestWatchGoesOnAfterACut(t *testing.T) {
	const running, succeeded = pod.PodState_POD_STATE_RUNNING, pod.PodState_POD_STATE_SUCCEEDED
	var mu sync.Mutex
	now := map[string]*pod.PodSummary{"1-0": podAt("1-0", 1, running), "1-1": podAt("1-1", 1, running)}
	change := func(name string, one *pod.PodSummary) {
		mu.Lock()
		defer mu.Unlock()
		if now[name] = one; one == nil {
			delete(now, name)
		}
	}
	var opened atomic.Int32
	listed := make(chan struct{}, 2)
	fake := serve(t, &fakeServer{
		listPods: func(_ *services.ListPodsRequest, stream grpc.ServerStreamingServer[services.ListPodsResponse]) error {
			mu.Lock()
			defer mu.Unlock()
			answer := &services.ListPodsResponse{}
			for _, name := range []string{"1-0", "1-1", "1-2"} {
				if one := now[name]; one != nil {
					answer.Pods = append(answer.Pods, one)
				}
			}
			listed <- struct{}{}
			return stream.Send(answer)
		},
		watch: func(_ *watches.WatchRequest, stream grpc.ServerStreamingServer[watches.WatchResponse]) error {
			if err := stream.Send(&watches.WatchResponse{WatchId: "w"}); err != nil {
				return err
			}
			<-listed
			if opened.Add(1) == 1 {
				// What the list had already, or newer, then a change; the next ones happen during the cut.
				if err := stream.Send(&watches.WatchResponse{Pods: []*pod.PodSummary{podAt("1-0", 0, running), podAt("1-1", 2, running)}}); err != nil {
					return err
				}
				change("1-0", podAt("1-0", 3, succeeded))
				change("1-1", nil)
				change("1-2", podAt("1-2", 1, running))
				return status.Error(codes.Unavailable, "this job manager no longer leads")
			}
			return status.Error(codes.Canceled, "watch w is cancelled")
		},
	})
	client := connect(t, Config{JobManager: fake.address})
	var seen []string
	var last error
	for event, err := range client.WatchPods(within(t, minute), "1") {
		if err != nil {
			last = err
			break
		}
		text := map[EventKind]string{Changed: "changed ", Gone: "gone ", Synced: "synced"}[event.Kind] + event.Name
		if event.Pod != nil {
			text += " " + strconv.Itoa(int(event.Pod.GetStatus().GetRevision().GetVersion()))
		}
		seen = append(seen, text)
	}
	want := "changed 1-0 1,changed 1-1 1,synced,changed 1-1 2,changed 1-0 3,changed 1-2 1,gone 1-1,synced"
	if strings.Join(seen, ",") != want {
		t.Error(seen)
	}
	if !errors.Is(last, errCancelled) || opened.Load() != 2 {
		t.Error(last, opened.Load())
	}
}

func TestWatchIsLeftAndEndsWithItsContext(t *testing.T) {
	fake := serve(t, &fakeServer{
		listPods: func(_ *services.ListPodsRequest, stream grpc.ServerStreamingServer[services.ListPodsResponse]) error {
			return stream.Send(&services.ListPodsResponse{Pods: []*pod.PodSummary{podAt("1-0", 1, 1)}})
		},
		watch: func(_ *watches.WatchRequest, stream grpc.ServerStreamingServer[watches.WatchResponse]) error {
			if err := stream.Send(&watches.WatchResponse{WatchId: "w"}); err != nil {
				return err
			}
			<-stream.Context().Done()
			return stream.Context().Err()
		},
	})
	client := connect(t, Config{JobManager: fake.address})
	for range client.WatchPods(within(t, minute), "1") {
		break
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var last error
	for event, err := range client.WatchPods(ctx, "1") {
		if event.Kind == Synced {
			cancel()
		}
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Error(last)
	}
}

func TestWatchThatIsRefused(t *testing.T) {
	fake := serve(t, &fakeServer{
		watch: func(*watches.WatchRequest, grpc.ServerStreamingServer[watches.WatchResponse]) error {
			return status.Error(codes.PermissionDenied, "not for you")
		},
	})
	client := connect(t, Config{JobManager: fake.address})
	for _, err := range client.WatchServices(within(t, minute), nil) {
		if !errors.Is(err, ErrPermissionDenied) {
			t.Error(err)
		}
	}
}

// agent serves one file, in pieces.
func agent(t *testing.T, content string) *url.URL {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("path") != "/run/stdout" {
			http.NotFound(w, r)
			return
		}
		if r.URL.Path == "/files/download" {
			_, _ = io.WriteString(w, content)
			return
		}
		offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
		text, _ := json.Marshal(content[offset:min(offset+5, len(content))])
		_, _ = io.WriteString(w, `{"data":`+string(text)+`,"offset":`+strconv.Itoa(offset)+`}`)
	}))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestLogs(t *testing.T) {
	const content = "one\ntwo\nthree\n"
	at := agent(t, content)
	var asked atomic.Int32
	fake := serve(t, &fakeServer{
		getTask: func(context.Context, *task.GetRequest) (*task.GetResponse, error) {
			state := task.TaskState_RUNNING
			if asked.Add(1) > 3 {
				state = task.TaskState_SUCCEEDED
			}
			return &task.GetResponse{Result: &task.TaskInfo{Runtime: &task.RuntimeInfo{State: state}}}, nil
		},
		browse: func(context.Context, *task.BrowseSandboxRequest) (*task.BrowseSandboxResponse, error) {
			if asked.Load() == 1 {
				refused := &task.TaskNotRunning{Message: "the run has not begun"}
				return &task.BrowseSandboxResponse{Error: &task.BrowseSandboxResponse_Error{NotRunning: refused}}, nil
			}
			return &task.BrowseSandboxResponse{Hostname: at.Hostname(), Port: at.Port(), Paths: []string{"/run/stderr", "/run/stdout"}}, nil
		},
	})
	client := connect(t, Config{JobManager: fake.address})
	for _, follow := range []bool{true, false} {
		log, err := client.Logs(within(t, minute), "1", 0, LogOptions{Follow: follow})
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(log)
		if err != nil || string(text) != content {
			t.Errorf("%q %v", text, err)
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := client.Logs(within(t, minute), "1", 0, LogOptions{File: "core"}); !errors.Is(err, ErrNotFound) ||
		!strings.Contains(err.Error(), "there: stderr, stdout") {
		t.Error(err)
	}
}

func TestFileDataIsKeptByteForByte(t *testing.T) {
	data, err := fileData([]byte("{\"data\":\"\xff\\n\xc3\xa9\\u20ac\",\"offset\":0}"))
	if err != nil || string(data) != "\xff\n\xc3\xa9€" {
		t.Errorf("%q %v", data, err)
	}
}
