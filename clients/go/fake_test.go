package peloton

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpchealth "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"peloton.internal/client/api/v0/job"
	"peloton.internal/client/api/v0/task"
	services "peloton.internal/client/api/v1alpha/job/stateless/svc"
	watches "peloton.internal/client/api/v1alpha/watch/svc"
)

// TestMain fails where goroutines of the client are left when the tests have ended.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := leftGoroutines(); code == 0 && left != "" {
		fmt.Fprintln(os.Stderr, "goroutines are left:\n"+left)
		code = 1
	}
	os.Exit(code)
}

// leftGoroutines returns the stacks of goroutines that are not those of the test program, once they had time to end.
func leftGoroutines() string {
	var left []string
	for range 100 {
		left = nil
		stacks := make([]byte, 1<<20)
		for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			own := strings.Contains(stack, "leftGoroutines") || strings.Contains(stack, "os/signal.") ||
				strings.Contains(stack, "testing.(*M)")
			if !own {
				left = append(left, stack)
			}
		}
		if len(left) == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return strings.Join(left, "\n\n")
}

// fakeServer is a job manager in this process. Its functions are nil where a test does not call them.
type fakeServer struct {
	watches.UnimplementedWatchServiceServer
	services.UnimplementedJobServiceServer

	address string
	server  *grpc.Server
	health  grpchealth.HealthServer // nil: not served
	calls   atomic.Int32

	create   func(context.Context, *job.CreateRequest) (*job.CreateResponse, error)
	get      func(context.Context, *job.GetRequest) (*job.GetResponse, error)
	query    func(context.Context, *job.QueryRequest) (*job.QueryResponse, error)
	getTask  func(context.Context, *task.GetRequest) (*task.GetResponse, error)
	list     func(context.Context, *task.ListRequest) (*task.ListResponse, error)
	browse   func(context.Context, *task.BrowseSandboxRequest) (*task.BrowseSandboxResponse, error)
	watch    func(*watches.WatchRequest, grpc.ServerStreamingServer[watches.WatchResponse]) error
	listPods func(*services.ListPodsRequest, grpc.ServerStreamingServer[services.ListPodsResponse]) error

	mu       sync.Mutex
	metadata metadata.MD
}

func serve(t *testing.T, fake *fakeServer, options ...grpc.ServerOption) *fakeServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	options = append(options, grpc.MaxRecvMsgSize(MaxMessageBytes), grpc.MaxSendMsgSize(MaxMessageBytes))
	fake.address, fake.server = listener.Addr().String(), grpc.NewServer(options...)
	job.RegisterJobManagerServer(fake.server, jobServer{fake: fake})
	task.RegisterTaskManagerServer(fake.server, taskServer{fake: fake})
	watches.RegisterWatchServiceServer(fake.server, fake)
	services.RegisterJobServiceServer(fake.server, fake)
	if fake.health != nil {
		grpchealth.RegisterHealthServer(fake.server, fake.health)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = fake.server.Serve(listener) // ends with Stop
	}()
	t.Cleanup(func() { fake.server.Stop(); <-done })
	return fake
}

type jobServer struct {
	job.UnimplementedJobManagerServer
	fake *fakeServer
}

func (s jobServer) Create(ctx context.Context, request *job.CreateRequest) (*job.CreateResponse, error) {
	s.fake.calls.Add(1)
	s.fake.note(ctx)
	return s.fake.create(ctx, request)
}

func (s jobServer) Get(ctx context.Context, request *job.GetRequest) (*job.GetResponse, error) {
	s.fake.calls.Add(1)
	s.fake.note(ctx)
	return s.fake.get(ctx, request)
}

func (s jobServer) Query(ctx context.Context, request *job.QueryRequest) (*job.QueryResponse, error) {
	return s.fake.query(ctx, request)
}

type taskServer struct {
	task.UnimplementedTaskManagerServer
	fake *fakeServer
}

func (s taskServer) Get(ctx context.Context, request *task.GetRequest) (*task.GetResponse, error) {
	return s.fake.getTask(ctx, request)
}

func (s taskServer) List(ctx context.Context, request *task.ListRequest) (*task.ListResponse, error) {
	return s.fake.list(ctx, request)
}

func (s taskServer) BrowseSandbox(ctx context.Context, r *task.BrowseSandboxRequest) (*task.BrowseSandboxResponse, error) {
	return s.fake.browse(ctx, r)
}

func (f *fakeServer) Watch(r *watches.WatchRequest, s grpc.ServerStreamingServer[watches.WatchResponse]) error {
	return f.watch(r, s)
}

func (f *fakeServer) ListPods(r *services.ListPodsRequest, s grpc.ServerStreamingServer[services.ListPodsResponse]) error {
	return f.listPods(r, s)
}

func (f *fakeServer) note(ctx context.Context) {
	found, _ := metadata.FromIncomingContext(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.metadata = found
}

func (f *fakeServer) value(key string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, value := range f.metadata.Get(key) {
		return value
	}
	return ""
}

func connect(t *testing.T, config Config) *Client {
	t.Helper()
	client, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

func within(t *testing.T, length time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), length)
	t.Cleanup(cancel)
	return ctx
}

func answered(state job.JobState) func(context.Context, *job.GetRequest) (*job.GetResponse, error) {
	return func(context.Context, *job.GetRequest) (*job.GetResponse, error) {
		return &job.GetResponse{JobInfo: &job.JobInfo{Runtime: &job.RuntimeInfo{State: state}}}, nil
	}
}

// notLeading is what a daemon answers that does not lead.
func notLeading(ctx context.Context, _ *job.GetRequest) (*job.GetResponse, error) {
	_ = grpc.SetTrailer(ctx, metadata.Pairs(notBegun, "1"))
	return nil, status.Error(codes.Unavailable, "jobmgr does not lead")
}

// spawn runs a function in a goroutine that a group waits for.
func spawn(group *sync.WaitGroup, body func()) {
	group.Add(1)
	go func() {
		defer group.Done()
		body()
	}()
}
