package peloton

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	grpchealth "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"google.golang.org/grpc"
	apiv0 "peloton.internal/client/api/v0"
	"peloton.internal/client/api/v0/job"
	"peloton.internal/client/api/v0/task"
	watches "peloton.internal/client/api/v1alpha/watch/svc"
)

// soon is less than the 15 s after which gRPC gives up a silent connection.
const soon = 10 * time.Second

// election is a resolver whose test says who leads.
type election struct {
	first string
	tells chan string
}

func (e election) address(context.Context, Role, string) (string, error) { return e.first, nil }
func (e election) others(string) []string                                { return nil }
func (e election) close()                                                {}

func (e election) watch(ctx context.Context, _ Role, tell func(string)) {
	for {
		select {
		case address := <-e.tells:
			tell(address)
		case <-ctx.Done():
			return
		}
	}
}

// elected returns a client that follows an election.
func elected(t *testing.T, first string) (*Client, election) {
	t.Helper()
	client := connect(t, Config{JobManager: first})
	following := election{first, make(chan string)}
	client.conns[JobManager].resolver = following
	return client, following
}

// frozen is a server that takes calls and never answers; asked gets one value for each.
func frozen(t *testing.T) (*fakeServer, chan struct{}) {
	t.Helper()
	asked := make(chan struct{}, 10)
	fake := &fakeServer{
		get: func(ctx context.Context, _ *job.GetRequest) (*job.GetResponse, error) {
			asked <- struct{}{}
			<-ctx.Done()
			return nil, status.FromContextError(ctx.Err()).Err()
		},
		create: func(ctx context.Context, _ *job.CreateRequest) (*job.CreateResponse, error) {
			asked <- struct{}{}
			<-ctx.Done()
			return nil, status.FromContextError(ctx.Err()).Err()
		},
		watch: func(_ *watches.WatchRequest, stream grpc.ServerStreamingServer[watches.WatchResponse]) error {
			asked <- struct{}{}
			<-stream.Context().Done()
			return nil
		},
	}
	return serve(t, fake), asked
}

func TestCallUnderWayGoesOnAtTheNewLeader(t *testing.T) {
	old, asked := frozen(t)
	next := serve(t, &fakeServer{get: answered(job.JobState_RUNNING)})
	client, following := elected(t, old.address)
	go func() {
		<-asked
		following.tells <- ""
		following.tells <- next.address
	}()
	if _, err := client.Job(within(t, soon), "1"); err != nil {
		t.Error(err)
	}
	if _, err := client.Job(within(t, soon), "1"); err != nil || next.calls.Load() != 2 {
		t.Error(err, next.calls.Load())
	}
}

func TestCallThatMayNotBeRepeatedStaysWithItsServer(t *testing.T) {
	asked, goOn := make(chan struct{}), make(chan struct{})
	old := serve(t, &fakeServer{get: notLeading, create: func(context.Context, *job.CreateRequest) (*job.CreateResponse, error) {
		close(asked)
		<-goOn
		return &job.CreateResponse{JobId: &apiv0.JobID{Value: "1"}}, nil
	}})
	next := serve(t, &fakeServer{get: answered(job.JobState_RUNNING)})
	client, following := elected(t, old.address)
	go func() {
		<-asked
		following.tells <- next.address
		for next.calls.Load() == 0 {
			_, _ = client.Job(within(t, soon), "1") // until it is answered by the next leader
		}
		close(goOn)
	}()
	answer, err := client.Jobs.Create(within(t, soon), &job.CreateRequest{})
	if err != nil || answer.GetJobId().GetValue() != "1" {
		t.Error(answer, err)
	}
}

func TestStreamEndsWithItsLeader(t *testing.T) {
	old, asked := frozen(t)
	client, following := elected(t, old.address)
	stream, err := client.Watches.Watch(within(t, soon), &watches.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	<-asked
	following.tells <- "127.0.0.1:1"
	if _, err := stream.Recv(); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
}

func TestPauseEndsWithNewsOfALeader(t *testing.T) {
	old := serve(t, &fakeServer{get: notLeading})
	next := serve(t, &fakeServer{get: answered(job.JobState_RUNNING)})
	client, following := elected(t, old.address)
	go func() {
		for old.calls.Load() < 6 { // the pauses have become long
			time.Sleep(time.Millisecond)
		}
		following.tells <- next.address
	}()
	if _, err := client.Job(within(t, minute), "1"); err != nil {
		t.Error(err)
	}
}

// leading makes the health of a server say that its services are served.
func leading() *health.Server {
	made := health.NewServer()
	made.SetServingStatus(served[JobManager], grpchealth.HealthCheckResponse_SERVING)
	return made
}

// noting passes a word for each health check that it has answered in time.
type noting struct {
	*health.Server
	answered chan<- struct{}
}

func (n noting) Check(ctx context.Context, r *grpchealth.HealthCheckRequest) (*grpchealth.HealthCheckResponse, error) {
	defer func() {
		if ctx.Err() == nil {
			n.answered <- struct{}{}
		}
	}()
	return n.Server.Check(ctx, r)
}

// second answers each health check after another server has answered one: it is never the only one in time.
type second struct {
	*health.Server
	after <-chan struct{}
}

func (s second) Check(ctx context.Context, r *grpchealth.HealthCheckRequest) (*grpchealth.HealthCheckResponse, error) {
	select {
	case <-s.after:
		return s.Server.Check(ctx, r)
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

func TestFrozenOneOfSeveralAddressesIsLeft(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // never accepts: a frozen daemon
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	next := &fakeServer{get: answered(job.JobState_RUNNING)}
	next.health = leading()
	serve(t, next)
	client := connect(t, Config{JobManager: silent.Addr().String() + "," + next.address})
	began := time.Now()
	if _, err := client.Job(within(t, soon), "1"); err != nil {
		t.Error(err, time.Since(began))
	}
}

func TestSlowLeaderIsNotLeft(t *testing.T) {
	var other atomic.Int32
	answered := make(chan struct{}, 100)
	slow := &fakeServer{get: func(ctx context.Context, r *job.GetRequest) (*job.GetResponse, error) {
		select {
		case <-time.After(4 * doubtAfter):
		case <-ctx.Done():
			return nil, status.Error(codes.Internal, "ended")
		}
		return &job.GetResponse{}, nil
	}}
	slow.health = noting{leading(), answered}
	serve(t, slow)
	next := &fakeServer{get: func(context.Context, *job.GetRequest) (*job.GetResponse, error) {
		other.Add(1)
		return &job.GetResponse{}, nil
	}}
	next.health = second{leading(), answered} // another name of the same daemon, say
	serve(t, next)
	client := connect(t, Config{JobManager: slow.address + "," + next.address})
	if _, err := client.Job(within(t, soon), "1"); err != nil || other.Load() != 0 {
		t.Error(err, other.Load())
	}
}

func TestPageIsRepeated(t *testing.T) {
	var lists atomic.Int32
	fake := &fakeServer{
		get: func(context.Context, *job.GetRequest) (*job.GetResponse, error) {
			return &job.GetResponse{JobInfo: &job.JobInfo{Config: &job.JobConfig{InstanceCount: 2500}}}, nil
		},
		list: func(ctx context.Context, r *task.ListRequest) (*task.ListResponse, error) {
			if lists.Add(1) == 2 { // the second page, as of a frozen leader
				<-ctx.Done()
				return nil, status.FromContextError(ctx.Err()).Err()
			}
			found := map[uint32]*task.TaskInfo{}
			for instance := r.GetRange().GetFrom(); instance < min(r.GetRange().GetTo(), 2500); instance++ {
				found[instance] = &task.TaskInfo{InstanceId: instance}
			}
			return &task.ListResponse{Result: &task.ListResponse_Result{Value: found}}, nil
		},
	}
	serve(t, fake)
	client := connect(t, Config{JobManager: fake.address, Timeout: time.Second})
	next := uint32(0)
	for instance, err := range client.Instances(context.Background(), "1") {
		if err != nil || instance.GetInstanceId() != next {
			t.Fatal(instance, err, next)
		}
		next++
	}
	if next != 2500 || lists.Load() < 4 { // more where a page takes longer than the time-out
		t.Error(next, lists.Load())
	}
}

func TestJobWithAnIDMayBeCreatedAgain(t *testing.T) {
	fake := &fakeServer{
		create: func(_ context.Context, request *job.CreateRequest) (*job.CreateResponse, error) {
			exists := &job.JobAlreadyExists{Id: request.GetId(), Message: "already exists"}
			return &job.CreateResponse{Error: &job.CreateResponse_Error{AlreadyExists: exists}}, nil
		},
		get: func(context.Context, *job.GetRequest) (*job.GetResponse, error) {
			return &job.GetResponse{JobInfo: &job.JobInfo{Config: &job.JobConfig{Name: "mine"}}}, nil
		},
	}
	serve(t, fake)
	client := connect(t, Config{JobManager: fake.address})
	if err := client.CreateJobWithID(within(t, soon), "1", "", &job.JobConfig{Name: "mine"}); err != nil {
		t.Error(err)
	}
	err := client.CreateJobWithID(within(t, soon), "1", "", &job.JobConfig{Name: "another"})
	if !errors.Is(err, ErrAlreadyExists) {
		t.Error(err)
	}
}

func TestRepeatedCallSaysSo(t *testing.T) {
	fake := &fakeServer{}
	fake.create = func(context.Context, *job.CreateRequest) (*job.CreateResponse, error) {
		if said := fake.value(repeated); (said == "1") != (fake.calls.Load() > 1) {
			t.Errorf("try %d says %q", fake.calls.Load(), said)
		}
		if fake.calls.Load() == 1 {
			return nil, status.Error(codes.Unavailable, "the answer was lost")
		}
		return &job.CreateResponse{}, nil
	}
	serve(t, fake)
	client := connect(t, Config{JobManager: fake.address})
	if _, err := client.CreateJob(within(t, soon), "", &job.JobConfig{}); err != nil || fake.calls.Load() != 2 {
		t.Error(err, fake.calls.Load())
	}
}
