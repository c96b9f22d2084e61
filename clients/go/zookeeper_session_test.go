package peloton

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// aServer answers the first message of each connection as ZooKeeper does, and hands the connection over.
func aServer(t *testing.T) (address string, connections <-chan net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	accepted := make(chan net.Conn, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			length := make([]byte, 4)
			if _, err := io.ReadFull(conn, length); err != nil {
				conn.Close()
				continue
			}
			if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(length))); err != nil {
				conn.Close()
				continue
			}
			answer := binary.BigEndian.AppendUint32(nil, 36) // bytes that follow
			answer = binary.BigEndian.AppendUint32(answer, 0)
			answer = binary.BigEndian.AppendUint32(answer, uint32(zooKeeperTimeout.Milliseconds()))
			answer = binary.BigEndian.AppendUint64(answer, 77) // the session's id
			answer = binary.BigEndian.AppendUint32(answer, 16)
			conn.Write(append(answer, make([]byte, 16)...))
			accepted <- conn
		}
	}()
	return listener.Addr().String(), accepted
}

func TestASessionThatWasLostDoesNotConnectAgain(t *testing.T) {
	address, connections := aServer(t)
	finder, err := newZooKeeper(address, "", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer finder.close()
	first, err := finder.connected()
	if err != nil {
		t.Fatal(err)
	}
	finder.reads.Done()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := first.settled(ctx); err != nil {
		t.Fatal(err)
	}

	(<-connections).Close()
	select {
	case <-first.lost:
	case <-ctx.Done():
		t.Fatal("the loss of the connection was not noticed")
	}
	if err := first.settled(ctx); !errors.Is(err, errSessionLost) {
		t.Fatalf("watches of a lost session: %v", err)
	}
	if _, _, err := first.conn.Get("/peloton"); err == nil {
		t.Fatal("a lost session answered")
	}
	if len(connections) != 0 {
		t.Fatal("a lost session connected again")
	}

	second, err := finder.connected()
	if err != nil {
		t.Fatal(err)
	}
	finder.reads.Done()
	if second == first {
		t.Fatal("a lost session was taken again")
	}
	if err := second.settled(ctx); err != nil {
		t.Fatal(err)
	}
}
