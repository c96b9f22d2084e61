package peloton

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
)

// endedInARow is how many connections in a row a server ends before its first byte when it refuses the client's
// certificate. One that is killed may end one or two.
const endedInARow = 3

// certified is TLS that tells that a server refuses the client's certificate. In TLS 1.3 the client's handshake
// is over before the server looks at it, and servers on gRPC's C core then end the connection without an alert.
type certified struct {
	credentials.TransportCredentials
	ended *sync.Map // by address: *atomic.Int32, the connections in a row
}

// ClientHandshake makes a connection whose end before the server's first byte counts.
func (c *certified) ClientHandshake(
	ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return conn, info, err
	}
	ended, _ := c.ended.LoadOrStore(raw.RemoteAddr().String(), new(atomic.Int32))
	return &certifiedConn{Conn: conn, ended: ended.(*atomic.Int32)}, info, nil
}

// Clone returns credentials that count with these.
func (c *certified) Clone() credentials.TransportCredentials {
	return &certified{c.TransportCredentials.Clone(), c.ended}
}

type certifiedConn struct {
	net.Conn
	ended *atomic.Int32
	heard atomic.Bool
	count sync.Once
}

// Read notes the server's first byte.
func (c *certifiedConn) Read(into []byte) (int, error) {
	count, err := c.Conn.Read(into)
	if count > 0 && !c.heard.Swap(true) {
		c.ended.Store(0)
	}
	return count, c.judge(err)
}

// Write fails as Read does.
func (c *certifiedConn) Write(from []byte) (int, error) {
	count, err := c.Conn.Write(from)
	return count, c.judge(err)
}

func (c *certifiedConn) judge(err error) error {
	if err == nil || c.heard.Load() || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	c.count.Do(func() { c.ended.Add(1) })
	if ended := c.ended.Load(); ended >= endedInARow {
		return fmt.Errorf("tls: the server ended %d connections in a row after the handshake, as one does that "+
			"refuses the client's certificate: %w", ended, err)
	}
	return err
}
