package peloton

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

const (
	// notBegun is the key of the trailing metadata of a call that was refused before it began.
	notBegun      = "peloton-not-begun"
	lookupTimeout = 5 * time.Second
)

// leaderConn calls the leader of a role, and the next one when it changes.
type leaderConn struct {
	role     Role
	resolver resolver
	dial     func(address string) (*grpc.ClientConn, error)
	identify func(ctx context.Context, role Role) (context.Context, error)
	timeout  time.Duration

	ctx    context.Context // ends with the client
	cancel context.CancelFunc
	wait   sync.WaitGroup

	mu      sync.Mutex
	current *target
	former  *target // calls to it may be under way
	failed  string
	looking *lookup
}

type target struct {
	address string
	conn    *grpc.ClientConn
}

type lookup struct {
	done   chan struct{}
	target *target
	err    error
}

func newLeaderConn(role Role, resolver resolver) *leaderConn {
	ctx, cancel := context.WithCancel(context.Background())
	return &leaderConn{role: role, resolver: resolver, ctx: ctx, cancel: cancel}
}

// Invoke makes a call, and again where it is safe, before the deadline of ctx or the client's time-out.
func (c *leaderConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if _, bounded := ctx.Deadline(); !bounded && c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	var waits pauses
	var last error
	for tries := 1; ; tries++ {
		again, err := c.once(ctx, method, args, reply, opts)
		if err == nil {
			return nil
		}
		if last != nil && ctx.Err() != nil {
			err = newError(status.FromContextError(ctx.Err()).Code(), method,
				fmt.Sprintf("no answer in %d tries; the one before: %v", tries, last), ctx.Err())
		}
		if !again || !pause(ctx, waits.next()) {
			return failed(method, err)
		}
		last = err
	}
}

// pause returns false, at once, where ctx ends before the pause does.
func pause(ctx context.Context, length time.Duration) bool {
	if end, bounded := ctx.Deadline(); bounded && time.Until(end) <= length {
		return false
	}
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// once makes a call once, and returns whether it may be made again.
func (c *leaderConn) once(ctx context.Context, method string, args, reply any, opts []grpc.CallOption) (bool, error) {
	at, err := c.leader(ctx)
	if err != nil {
		return status.Code(err) == codes.Unavailable && ctx.Err() == nil, err
	}
	ctx, err = c.identify(ctx, c.role)
	if err != nil {
		return false, err
	}
	var trailer metadata.MD
	try := &attempt{}
	err = at.conn.Invoke(context.WithValue(ctx, attemptKey{}, try), method, args, reply,
		append(opts[:len(opts):len(opts)], grpc.Trailer(&trailer))...)
	return c.judge(ctx, at, method, args, err, trailer, try), err
}

func (c *leaderConn) judge(
	ctx context.Context, at *target, method string, args any, err error, trailer metadata.MD, try *attempt,
) bool {
	code := status.Code(err)
	if refusedTLS(err) {
		return false
	}
	if code == codes.DeadlineExceeded && ctx.Err() != nil || serverGone(ctx, code) {
		c.invalidate(at)
	}
	if err == nil || !serverGone(ctx, code) {
		return false
	}
	return !try.sent.Load() || len(trailer.Get(notBegun)) > 0 || Repeatable(method, args)
}

// refusedTLS returns whether one side did not take the other's certificate: another try would not help.
func refusedTLS(err error) bool {
	return status.Code(err) == codes.Unavailable && certificateTrouble(status.Convert(err).Message())
}

func certificateTrouble(text string) bool {
	return strings.Contains(text, "x509: ") || strings.Contains(text, "tls: ")
}

// serverGone returns whether the code is that of calls to a server that ends.
func serverGone(ctx context.Context, code codes.Code) bool {
	return ctx.Err() == nil && (code == codes.Unavailable || code == codes.Canceled)
}

// NewStream opens a stream at the leader of this moment. It ends with its connection.
func (c *leaderConn) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	at, err := c.leader(ctx)
	if err != nil {
		return nil, failed(method, err)
	}
	if ctx, err = c.identify(ctx, c.role); err != nil {
		return nil, failed(method, err)
	}
	stream, err := at.conn.NewStream(ctx, desc, method, opts...)
	if err != nil {
		c.judge(ctx, at, method, nil, err, nil, &attempt{})
		return nil, failed(method, err)
	}
	return &leaderStream{ClientStream: stream, conn: c, at: at, method: method}, nil
}

type leaderStream struct {
	grpc.ClientStream
	conn   *leaderConn
	at     *target
	method string
}

func (s *leaderStream) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	if serverGone(s.Context(), status.Code(err)) {
		s.conn.invalidate(s.at)
	}
	return failed(s.method, err)
}

// leader returns the leader; calls that wait for it share one look-up.
func (c *leaderConn) leader(ctx context.Context) (*target, error) {
	c.mu.Lock()
	if c.ctx.Err() != nil {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	if c.current != nil {
		defer c.mu.Unlock()
		return c.current, nil
	}
	look := c.looking
	if look == nil {
		look = &lookup{done: make(chan struct{})}
		c.looking = look
		c.wait.Add(1)
		go c.look(look, c.failed)
	}
	c.mu.Unlock()
	select {
	case <-look.done:
		return look.target, look.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *leaderConn) look(look *lookup, failed string) {
	defer c.wait.Done()
	defer close(look.done)
	ctx, cancel := context.WithTimeout(c.ctx, lookupTimeout)
	defer cancel()
	address, err := c.resolver.address(ctx, c.role, failed)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looking = nil
	if c.ctx.Err() != nil {
		err = ErrClosed
	}
	if err == nil {
		err = c.move(address)
	}
	look.target, look.err = c.current, err
}

// move makes the address the current one. The connection before the former one is closed.
func (c *leaderConn) move(address string) error {
	if c.former != nil && c.former.address == address {
		c.current, c.former = c.former, nil
		return nil
	}
	conn, err := c.dial(address)
	if err != nil {
		return invalid("address of "+string(c.role), address, "an address: "+err.Error())
	}
	c.current = &target{address, conn}
	return nil
}

// invalidate forgets a leader, so that the next call looks it up again.
func (c *leaderConn) invalidate(at *target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != at {
		return
	}
	if c.former != nil {
		_ = c.former.conn.Close() // only a second Close fails
	}
	c.current, c.former, c.failed = nil, at, at.address
}

func (c *leaderConn) close() {
	c.cancel()
	c.wait.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, each := range []*target{c.current, c.former} {
		if each != nil {
			_ = each.conn.Close()
		}
	}
	c.current, c.former = nil, nil
}

type attemptKey struct{}

// attempt notes whether a call was sent to a server.
type attempt struct{ sent atomic.Bool }

// sentNotes is the part of gRPC's statistics that attempts need.
type sentNotes struct{}

func (sentNotes) HandleRPC(ctx context.Context, event stats.RPCStats) {
	if _, sent := event.(*stats.OutHeader); !sent {
		return
	}
	if try, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		try.sent.Store(true)
	}
}

func (sentNotes) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (sentNotes) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (sentNotes) HandleConn(context.Context, stats.ConnStats)                       {}
