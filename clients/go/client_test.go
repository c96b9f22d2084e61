package peloton

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	apiv0 "peloton.internal/client/api/v0"
	"peloton.internal/client/api/v0/job"
	"peloton.internal/client/api/v1alpha"
	services "peloton.internal/client/api/v1alpha/job/stateless/svc"
)

const minute = time.Minute

func TestCallsFollowTheLeader(t *testing.T) {
	follower := serve(t, &fakeServer{get: notLeading})
	leader := serve(t, &fakeServer{get: answered(job.JobState_RUNNING)})
	client := connect(t, Config{JobManager: follower.address + "," + leader.address})
	info, err := client.Job(within(t, minute), "1")
	if err != nil || info.GetRuntime().GetState() != job.JobState_RUNNING {
		t.Fatal(info, err)
	}
	if follower.calls.Load() != 1 || leader.calls.Load() != 1 {
		t.Fatal("calls:", follower.calls.Load(), leader.calls.Load())
	}
}

func TestCallIsRepeatedWhereNothingListens(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	_ = listener.Close()
	leader := serve(t, &fakeServer{create: func(context.Context, *job.CreateRequest) (*job.CreateResponse, error) {
		return &job.CreateResponse{JobId: &apiv0.JobID{Value: "1"}}, nil
	}})
	client := connect(t, Config{JobManager: closed + "," + leader.address})
	// Without an id the call may not be repeated, but it was never sent.
	answer, err := client.Jobs.Create(within(t, minute), &job.CreateRequest{})
	if err != nil || answer.GetJobId().GetValue() != "1" {
		t.Fatal(answer, err)
	}
}

func TestCallWithUnknownOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		id    string
		calls int32
	}{"without an id is not repeated": {"", 1}, "with an id is repeated": {"1", 2}} {
		t.Run(name, func(t *testing.T) {
			fake := &fakeServer{}
			fake.create = func(context.Context, *job.CreateRequest) (*job.CreateResponse, error) {
				if fake.calls.Load() == 1 {
					return nil, status.Error(codes.Unavailable, "stopped while the call was under way")
				}
				return &job.CreateResponse{}, nil
			}
			serve(t, fake)
			client := connect(t, Config{JobManager: fake.address})
			_, err := client.Jobs.Create(within(t, minute), &job.CreateRequest{Id: &apiv0.JobID{Value: c.id}})
			if fake.calls.Load() != c.calls {
				t.Errorf("%d calls, not %d", fake.calls.Load(), c.calls)
			}
			if failed := errors.Is(err, ErrUnavailable); failed != (c.id == "") {
				t.Error(err)
			}
		})
	}
}

func TestCreateJobTakesItsOwnFirstTryForDone(t *testing.T) {
	fake := &fakeServer{}
	fake.create = func(_ context.Context, request *job.CreateRequest) (*job.CreateResponse, error) {
		if fake.calls.Load() == 1 {
			return nil, status.Error(codes.Unavailable, "the answer was lost")
		}
		exists := &job.JobAlreadyExists{Id: request.GetId(), Message: "already exists"}
		return &job.CreateResponse{Error: &job.CreateResponse_Error{AlreadyExists: exists}}, nil
	}
	serve(t, fake)
	client := connect(t, Config{JobManager: fake.address})
	id, err := client.CreateJob(within(t, minute), "", &job.JobConfig{})
	if err != nil || len(id) != 36 {
		t.Fatal(id, err)
	}
}

func TestOneDeadlineIsOverAllTries(t *testing.T) {
	fake := serve(t, &fakeServer{get: notLeading})
	client := connect(t, Config{JobManager: fake.address, Timeout: 2 * time.Second})
	began := time.Now()
	_, err := client.Job(context.Background(), "1")
	// The deadline may come during a try, or during the pause after one.
	if !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrDeadlineExceeded) || !strings.Contains(err.Error(), "does not lead") {
		t.Error(err)
	}
	if time.Since(began) > 20*time.Second || fake.calls.Load() < 2 {
		t.Error(time.Since(began), fake.calls.Load())
	}
}

func TestServerThatSendsNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // never accepts
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client := connect(t, Config{JobManager: listener.Addr().String()})
	_, err = client.Job(within(t, time.Second), "1")
	var typed *Error
	if !errors.As(err, &typed) || !errors.Is(err, ErrDeadlineExceeded) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%#v", err)
	}
}

func TestExpiredAndCancelledContexts(t *testing.T) {
	hang := make(chan struct{})
	fake := serve(t, &fakeServer{get: func(ctx context.Context, _ *job.GetRequest) (*job.GetResponse, error) {
		close(hang)
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	client := connect(t, Config{JobManager: fake.address})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-hang; cancel() }()
	if _, err := client.Job(ctx, "1"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	past, cancel := context.WithDeadline(context.Background(), time.Unix(1, 0))
	defer cancel()
	if _, err := client.Job(past, "1"); !errors.Is(err, ErrDeadlineExceeded) {
		t.Error(err)
	}
}

func TestMetadata(t *testing.T) {
	fake := serve(t, &fakeServer{get: answered(job.JobState_RUNNING)})
	client := connect(t, Config{
		JobManager: fake.address, Caller: "tests",
		Basic: &BasicAuth{"ann", "secret"}, Token: StaticToken("abc"),
	})
	if _, err := client.Job(within(t, minute), "1"); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"rpc-caller": "tests", "rpc-service": "peloton-jobmgr", "rpc-encoding": "proto",
		"peloton-answer-bytes": "268435456", "peloton-version": Version,
		"username": "ann", "password": "secret", "authorization": "Bearer abc",
	} {
		if got := fake.value(key); got != want {
			t.Errorf("%s is %q, not %q", key, got, want)
		}
	}
}

func TestMetadataOfTheCallerCounts(t *testing.T) {
	fake := serve(t, &fakeServer{get: answered(job.JobState_RUNNING)})
	client := connect(t, Config{JobManager: fake.address, Caller: "tests"})
	ctx := metadata.AppendToOutgoingContext(within(t, minute), "rpc-caller", "mine", "x-request", "7")
	if _, err := client.Job(ctx, "1"); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"rpc-caller": "mine", "x-request": "7", "rpc-service": "peloton-jobmgr"} {
		if got := fake.value(key); got != want {
			t.Errorf("%s is %q, not %q", key, got, want)
		}
	}
}

func TestTokenThatCannotBeHad(t *testing.T) {
	fake := serve(t, &fakeServer{})
	client := connect(t, Config{JobManager: fake.address, Token: func(context.Context) (string, error) {
		return "", errors.New("no such file")
	}})
	if _, err := client.Job(within(t, minute), "1"); !errors.Is(err, ErrUnauthenticated) {
		t.Fatal(err)
	}
}

func TestLargeMessages(t *testing.T) {
	name := strings.Repeat("x", 20<<20)
	fake := serve(t, &fakeServer{create: func(_ context.Context, r *job.CreateRequest) (*job.CreateResponse, error) {
		return &job.CreateResponse{JobId: &apiv0.JobID{Value: r.GetConfig().GetName()}}, nil
	}})
	client := connect(t, Config{JobManager: fake.address})
	answer, err := client.Jobs.Create(within(t, minute), &job.CreateRequest{Config: &job.JobConfig{Name: name}})
	if err != nil || answer.GetJobId().GetValue() != name {
		t.Fatal(err)
	}
}

func TestManyGoroutinesShareAClient(t *testing.T) {
	follower := serve(t, &fakeServer{get: notLeading})
	leader := serve(t, &fakeServer{get: answered(job.JobState_RUNNING)})
	client := connect(t, Config{JobManager: follower.address + "," + leader.address})
	var group sync.WaitGroup
	for range 50 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 20 {
				if _, err := client.Job(within(t, minute), "1"); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	group.Wait()
	if leader.calls.Load() != 1000 {
		t.Error(leader.calls.Load())
	}
}

func TestClosedClient(t *testing.T) {
	client := connect(t, Config{ZooKeeper: "127.0.0.1:1"})
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Job(within(t, minute), "1"); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func TestZooKeeperThatIsNotThere(t *testing.T) {
	client := connect(t, Config{ZooKeeper: "127.0.0.1:1"})
	_, err := client.Job(within(t, 2*time.Second), "1")
	if !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrDeadlineExceeded) || !strings.Contains(err.Error(), "ZooKeeper") {
		t.Fatal(err)
	}
}

func TestTLS(t *testing.T) {
	authority, stranger := newAuthority(t), newAuthority(t)
	server := &tls.Config{
		Certificates: []tls.Certificate{authority.issue(t)}, ClientCAs: authority.pool(), ClientAuth: tls.RequireAndVerifyClientCert,
	}
	fake := serve(t, &fakeServer{get: answered(job.JobState_RUNNING)}, grpc.Creds(credentials.NewTLS(server)))
	for name, c := range map[string]struct {
		config *tls.Config
		good   bool
	}{
		"mutual":                     {&tls.Config{RootCAs: authority.pool(), Certificates: []tls.Certificate{authority.issue(t)}}, true},
		"without a certificate":      {&tls.Config{RootCAs: authority.pool()}, false},
		"certificate of a stranger":  {&tls.Config{RootCAs: authority.pool(), Certificates: []tls.Certificate{stranger.issue(t)}}, false},
		"server is not known to one": {&tls.Config{RootCAs: stranger.pool(), Certificates: []tls.Certificate{authority.issue(t)}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			client := connect(t, Config{JobManager: fake.address, TLS: c.config})
			_, err := client.Job(within(t, minute), "1")
			if c.good && err != nil || !c.good && !errors.Is(err, ErrUnauthenticated) {
				t.Error(err)
			}
		})
	}
}

func TestTLSWithoutACertificateOfTheClient(t *testing.T) {
	authority := newAuthority(t)
	server := &tls.Config{Certificates: []tls.Certificate{authority.issue(t)}}
	fake := serve(t, &fakeServer{get: answered(job.JobState_RUNNING)}, grpc.Creds(credentials.NewTLS(server)))
	client := connect(t, Config{JobManager: fake.address, TLS: &tls.Config{RootCAs: authority.pool()}})
	if _, err := client.Job(within(t, minute), "1"); err != nil {
		t.Error(err)
	}
}

// In TLS 1.3 the client's handshake is over before the server looks at its certificate.
func TestServerThatEndsConnectionsAfterTheHandshake(t *testing.T) {
	authority := newAuthority(t)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{authority.issue(t)}, NextProtos: []string{"h2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.(*tls.Conn).Handshake() // what it says is told to the client, too
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	client := connect(t, Config{JobManager: listener.Addr().String(), TLS: &tls.Config{RootCAs: authority.pool()}})
	_, err = client.Job(within(t, minute), "1")
	if !errors.Is(err, ErrUnauthenticated) || !strings.Contains(err.Error(), "refuses the client's certificate") {
		t.Error(err)
	}
}

func TestWrongAddresses(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	for _, address := range []string{listener.Addr().String(), "nowhere.invalid:5392"} {
		client := connect(t, Config{JobManager: address, Timeout: time.Second})
		_, err := client.Job(context.Background(), "1")
		if !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrDeadlineExceeded) {
			t.Error(address, err)
		}
	}
}

type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{certificate, key}
}

func (a authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

func (a authority) issue(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestConfigs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clusters.json")
	if err := os.WriteFile(file, []byte(`{"clusters": [{"clusterName": "prod", "zkURL": "zk1:2181"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	known := Config{Cluster: "prod", ClusterFiles: []string{file}}
	if servers, err := known.zooKeeper(); err != nil || servers != "zk1:2181" {
		t.Error(servers, err)
	}
	for field, config := range map[string]Config{
		"cluster":           {Cluster: "dev", ClusterFiles: []string{file}},
		"address of jobmgr": {JobManager: "somewhere"},
		"zooKeeper":         {ZooKeeper: "zk1"},
	} {
		_, err := New(config)
		var typed *Error
		if !errors.As(err, &typed) || typed.Field != field || !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestConfigFromEnv(t *testing.T) {
	auth := filepath.Join(t.TempDir(), "auth.yaml")
	if err := os.WriteFile(auth, []byte("username: ann\npassword: secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"JOBMGR_URL": "http://one:5392/", "ZK_SERVERS": "a:1\nb:2", "BASIC_AUTH_CONFIG": auth, "TIMEOUT": "3s", "PELOTON_TOKEN": "abc",
	} {
		t.Setenv(name, value)
	}
	config, err := ConfigFromEnv("me")
	if err != nil || config.Timeout != 3*time.Second || config.ZooKeeper != "a:1,b:2" || *config.Basic != (BasicAuth{"ann", "secret"}) {
		t.Errorf("%+v %v", config, err)
	}
	list, err := parseAddresses(JobManager, config.JobManager)
	if err != nil || list[0] != "one:5392" {
		t.Error(list, err)
	}
	t.Setenv("TIMEOUT", "soon")
	if _, err := ConfigFromEnv("me"); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestTaskToken(t *testing.T) {
	sandbox := t.TempDir()
	if err := os.WriteFile(filepath.Join(sandbox, "token"), []byte("peloton-task.x.32503680000.y\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"JOBMGR_URL": "one:5392", "MESOS_SANDBOX": sandbox, "PELOTON_TOKEN_FILE": "token",
	} {
		t.Setenv(name, value)
	}
	config, err := ConfigFromEnv("me")
	if err != nil {
		t.Fatal(err)
	}
	if token, err := config.Token(context.Background()); token != "peloton-task.x.32503680000.y" || err != nil {
		t.Error(token, err)
	}
	t.Setenv("PELOTON_TOKEN", "abc")
	if config, err = ConfigFromEnv("me"); err != nil {
		t.Fatal(err)
	}
	if token, _ := config.Token(context.Background()); token != "abc" {
		t.Error(token)
	}
	t.Setenv("PELOTON_TOKEN", "")
	t.Setenv("PELOTON_TOKEN_FILE", "missing")
	if _, err := ConfigFromEnv("me"); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestTypedErrors(t *testing.T) {
	fake := serve(t, &fakeServer{get: func(context.Context, *job.GetRequest) (*job.GetResponse, error) {
		return nil, status.Error(codes.InvalidArgument, "config.instanceCount: 0 is not a number from 1 to 100000")
	}})
	client := connect(t, Config{JobManager: fake.address})
	_, err := client.Job(within(t, minute), "1")
	var typed *Error
	if !errors.As(err, &typed) {
		t.Fatal(err)
	}
	if typed.Code != codes.InvalidArgument || typed.Field != "config.instanceCount" || typed.Value != "0" || typed.Expected != "a number from 1 to 100000" {
		t.Errorf("%+v", typed)
	}
	if typed.Method != "peloton.api.v0.job.JobManager/Get" || status.Code(err) != codes.InvalidArgument {
		t.Error(typed.Method, status.Code(err))
	}
}

func TestEachPublicMethodHasARule(t *testing.T) {
	count := 0
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if !strings.HasPrefix(file.Path(), "peloton/api/") {
			return true
		}
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				count++
				name := string(service.FullName()) + "/" + string(service.Methods().Get(j).Name())
				if callRules[name] == "" {
					t.Errorf("calls.json has no rule for %s", name)
				}
			}
		}
		return true
	})
	if count < 50 || len(callRules) < count {
		t.Error(count, len(callRules))
	}
}

func TestRepeatable(t *testing.T) {
	version := &apiv1alpha.EntityVersion{Value: "1-1-1"}
	for method, c := range map[string]struct {
		request any
		want    bool
	}{
		"/peloton.api.v0.job.JobManager/Get":                           {&job.GetRequest{}, true},
		"/peloton.api.v0.job.JobManager/Update":                        {&job.UpdateRequest{}, false},
		"/peloton.api.v1alpha.job.stateless.svc.JobService/RestartJob": {&services.RestartJobRequest{Version: version}, true},
		"/peloton.api.v1alpha.job.stateless.svc.JobService/ReplaceJob": {&services.ReplaceJobRequest{}, false},
		"/peloton.api.v1alpha.job.stateless.svc.JobService/CreateJob":  {&services.CreateJobRequest{}, false},
		"/peloton.api.v9.Unknown/Get":                                  {&job.GetRequest{}, false},
	} {
		if got := Repeatable(method, c.request); got != c.want {
			t.Errorf("%s: %v", method, got)
		}
	}
}

func TestTaskTokenIsRenewed(t *testing.T) {
	var mu sync.Mutex
	var shown []string
	fails := true
	renewed := func(_ context.Context, old string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		shown = append(shown, old)
		if fails {
			return "", errors.New("nobody leads")
		}
		return "peloton-task.x.3000.z", nil
	}
	now := time.Unix(0, 0)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("peloton-task.x.1000.y"), 0o600); err != nil {
		t.Fatal(err)
	}
	token, err := readTaskToken(file, renewed, func() time.Time { mu.Lock(); defer mu.Unlock(); return now })
	if err != nil {
		t.Fatal(err)
	}
	later := func(seconds int64, calls int, want string) {
		t.Helper()
		mu.Lock()
		now = time.Unix(seconds, 0)
		mu.Unlock()
		for range 500 {
			got, _ := token.get(context.Background())
			mu.Lock()
			done := len(shown) == calls && got == want
			mu.Unlock()
			token.mu.Lock()
			done = done && !token.renewing
			token.mu.Unlock()
			if done {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("after %d s: %v", seconds, shown)
	}
	later(499, 0, "peloton-task.x.1000.y")
	later(501, 1, "peloton-task.x.1000.y") // nobody answered
	mu.Lock()
	fails = false
	mu.Unlock()
	later(522, 2, "peloton-task.x.3000.z")
	later(1700, 2, "peloton-task.x.3000.z") // half of 2478 s are not over
	if shown[0] != shown[1] {
		t.Error(shown)
	}
	if err := os.WriteFile(file, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readTaskToken(file, renewed, time.Now); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	if err := os.WriteFile(file, []byte("peloton-task.x.1000.y"), 0o600); err != nil {
		t.Fatal(err)
	}
	if token, err = readTaskToken(file, renewed, func() time.Time { return time.Unix(2000, 0) }); err != nil {
		t.Fatal(err)
	}
	if got, _ := token.get(context.Background()); got != "peloton-task.x.3000.z" {
		t.Error(got, "though the one in the file had expired")
	}
}
