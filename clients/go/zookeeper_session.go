package peloton

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// settleTime is what go-zookeeper has after the start of a session before a watch is set, see session.
const settleTime = 100 * time.Millisecond

var errSessionLost = errors.New("the session with ZooKeeper was lost")

// session is one connection to ZooKeeper, from its start to its first loss.
//
// At the start of each connection go-zookeeper (1.0.4) sets the watches that it has again, in one goroutine, and reads a
// number that the goroutine of the answers writes: a data race wherever there is a watch at that time. So a session has
// none then: once lost, it does not connect again, which would take its watches along, and it waits a moment at its start.
type session struct {
	conn  *zk.Conn
	began chan struct{} // closed when the server has answered for the first time
	lost  chan struct{} // closed when the connection ends
}

type dial func(network, address string, timeout time.Duration) (net.Conn, error)

// newSession starts to connect.
func newSession(servers []string, provider zk.HostProvider, dial dial) (*session, error) {
	made := &session{began: make(chan struct{}), lost: make(chan struct{})}
	begin, lose := sync.OnceFunc(func() { close(made.began) }), sync.OnceFunc(func() { close(made.lost) })
	once := func(network, address string, timeout time.Duration) (net.Conn, error) {
		if made.ended() {
			return nil, errSessionLost
		}
		return dial(network, address, timeout)
	}
	var err error
	made.conn, _, err = zk.Connect(servers, zooKeeperTimeout, zk.WithHostProvider(provider), zk.WithDialer(once),
		zk.WithLogger(nolog{}), zk.WithLogInfo(false), zk.WithEventCallback(func(event zk.Event) {
			switch event.State {
			case zk.StateHasSession:
				begin()
			case zk.StateDisconnected:
				lose()
			}
		}))
	if err != nil {
		return nil, err
	}
	go func() {
		<-made.lost
		made.conn.Close()
	}()
	return made, nil
}

// ended reports whether the connection was lost.
func (s *session) ended() bool {
	select {
	case <-s.lost:
		return true
	default:
		return false
	}
}

// settled waits until watches may be set.
func (s *session) settled(ctx context.Context) error {
	select {
	case <-s.began:
		pause(ctx, settleTime, s.lost)
	case <-s.lost:
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.ended() {
		return errSessionLost
	}
	return ctx.Err()
}
