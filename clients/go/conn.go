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
	notBegun = "peloton-not-begun"
	// repeated is the key of the metadata of a call whose earlier try may have been carried out.
	repeated      = "peloton-repeated"
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

	mu        sync.Mutex
	current   *target
	former    *target // calls to it may be under way
	failed    string
	looking   *lookup
	watched   bool
	announced string        // by the election
	news      chan struct{} // closed when another one is known to lead
	probes    map[string]*grpc.ClientConn
}

// target is a leader, or who was taken for it.
type target struct {
	address string
	conn    *grpc.ClientConn
	left    context.Context // ends when another one is known to lead
	leave   context.CancelFunc
	waiting atomic.Int64 // calls without an answer
	seeking atomic.Bool
}

func newTarget(address string, conn *grpc.ClientConn) *target {
	left, leave := context.WithCancel(context.Background())
	return &target{address: address, conn: conn, left: left, leave: leave}
}

type lookup struct {
	done   chan struct{}
	target *target
	err    error
}

func newLeaderConn(role Role, resolver resolver) *leaderConn {
	ctx, cancel := context.WithCancel(context.Background())
	return &leaderConn{role: role, resolver: resolver, ctx: ctx, cancel: cancel, news: make(chan struct{})}
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
	lost := false
	for tries := 1; ; tries++ {
		news := c.anyNews()
		result := c.once(ctx, method, args, reply, opts, lost)
		err := result.err
		if err == nil {
			return nil
		}
		if last != nil && ctx.Err() != nil {
			err = newError(status.FromContextError(ctx.Err()).Code(), method,
				fmt.Sprintf("no answer in %d tries; the one before: %v", tries, last), ctx.Err())
		}
		if !result.again {
			return failed(method, err)
		}
		switch waited, told := pause(ctx, waits.next(), news); {
		case !waited:
			return failed(method, err)
		case told:
			waits = pauses{}
		}
		last, lost = err, lost || result.lost
	}
}

// pause returns false, at once, where ctx ends before the pause does. It ends early, and says so, at news.
func pause(ctx context.Context, length time.Duration, news <-chan struct{}) (waited, told bool) {
	select {
	case <-news:
		return ctx.Err() == nil, true
	default:
	}
	if end, bounded := ctx.Deadline(); bounded && time.Until(end) <= length {
		return false, false
	}
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true, false
	case <-news:
		return true, true
	case <-ctx.Done():
		return false, false
	}
}

// outcome is what came of one try.
type outcome struct {
	again bool // whether it may be made again
	lost  bool // whether it may have been carried out though there is no answer
	err   error
}

// once makes a call once; lost says that an earlier try may have been carried out.
func (c *leaderConn) once(
	ctx context.Context, method string, args, reply any, opts []grpc.CallOption, lost bool,
) outcome {
	at, err := c.leader(ctx)
	if err != nil {
		return outcome{again: status.Code(err) == codes.Unavailable && ctx.Err() == nil, err: err}
	}
	sending, err := c.identify(ctx, c.role)
	if err != nil {
		return outcome{err: err}
	}
	if lost {
		sending = metadata.AppendToOutgoingContext(sending, repeated, "1")
	}
	var trailer metadata.MD
	try := &attempt{repeatable: Repeatable(method, args)}
	sending, done := c.under(context.WithValue(sending, attemptKey{}, try), at, try)
	defer done()
	err = at.conn.Invoke(sending, method, args, reply, append(opts[:len(opts):len(opts)], grpc.Trailer(&trailer))...)
	return c.judge(ctx, at, err, trailer, try)
}

// under returns the context of a try at a target: it ends when another one leads, if the try may be repeated then.
func (c *leaderConn) under(ctx context.Context, at *target, try *attempt) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(at.left, func() {
		if try.repeatable || !try.sent.Load() {
			cancel()
		}
	})
	answered := c.doubt(at)
	return ctx, func() { answered(); stop(); cancel() }
}

func (c *leaderConn) judge(ctx context.Context, at *target, err error, trailer metadata.MD, try *attempt) outcome {
	code := status.Code(err)
	if err == nil || refusedTLS(err) {
		return outcome{err: err}
	}
	if code == codes.DeadlineExceeded && ctx.Err() != nil || serverGone(ctx, code) {
		c.invalidate(at)
	}
	if !serverGone(ctx, code) {
		return outcome{err: err}
	}
	if code == codes.Canceled && at.left.Err() != nil {
		err = newError(codes.Unavailable, "", at.address+" does not lead any more", err)
	}
	begun := try.sent.Load() && len(trailer.Get(notBegun)) == 0
	return outcome{again: !begun || try.repeatable, lost: begun, err: err}
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
	within, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(at.left, cancel)
	context.AfterFunc(within, func() { stop() })
	stream, err := at.conn.NewStream(within, desc, method, opts...)
	if err != nil {
		cancel()
		return nil, failed(method, c.judge(ctx, at, err, nil, &attempt{}).err)
	}
	return &leaderStream{ClientStream: stream, ctx: ctx, cancel: cancel, conn: c, at: at, method: method}, nil
}

type leaderStream struct {
	grpc.ClientStream
	ctx    context.Context // the caller's
	cancel context.CancelFunc
	conn   *leaderConn
	at     *target
	method string
}

func (s *leaderStream) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	if err == nil {
		return nil
	}
	defer s.cancel()
	if errors.Is(err, io.EOF) {
		return err
	}
	return failed(s.method, s.conn.judge(s.ctx, s.at, err, nil, &attempt{}).err)
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
		if !c.watched {
			c.watched = true
			c.wait.Add(1)
			go func() {
				defer c.wait.Done()
				c.resolver.watch(c.ctx, c.role, c.told)
			}()
		}
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
	if err == nil && c.current == nil { // else an election has told it meanwhile
		err = c.move(address)
	}
	look.target, look.err = c.current, err
}

// move makes the address the current one. The connection before the former one is closed.
func (c *leaderConn) move(address string) error {
	if c.former != nil && c.former.address == address {
		c.current, c.former = c.former, nil
		if c.current.left.Err() != nil {
			c.current = newTarget(address, c.current.conn)
		}
		return nil
	}
	conn, err := c.dial(address)
	if err != nil {
		return invalid("address of "+string(c.role), address, "an address: "+err.Error())
	}
	c.current = newTarget(address, conn)
	return nil
}

// invalidate forgets a leader, so that the next call looks it up again.
func (c *leaderConn) invalidate(at *target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == at {
		c.forget()
	}
}

// forget makes the current target the former one. Calls to it go on.
func (c *leaderConn) forget() {
	if c.former != nil {
		c.former.leave()
		_ = c.former.conn.Close() // only a second Close fails
	}
	c.former, c.failed = c.current, c.current.address
	c.current = nil
}

func (c *leaderConn) close() {
	c.mu.Lock()
	c.cancel() // what begins with the lock held sees it
	c.mu.Unlock()
	c.wait.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, each := range []*target{c.current, c.former} {
		if each != nil {
			each.leave()
			_ = each.conn.Close()
		}
	}
	for _, each := range c.probes {
		_ = each.Close()
	}
	c.current, c.former, c.probes = nil, nil, nil
}

type attemptKey struct{}

// attempt notes whether a call was sent to a server.
type attempt struct {
	sent       atomic.Bool
	repeatable bool // though it may have been carried out
}

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
