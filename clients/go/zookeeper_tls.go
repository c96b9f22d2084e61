package peloton

import (
	"crypto/tls"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// encryptedZooKeeper connects to servers by TLS, and remembers why it could not. It keeps their names, which
// their certificates are for: go-zookeeper's own provider has addresses only.
type encryptedZooKeeper struct {
	config *tls.Config

	mu      sync.Mutex
	servers []string
	next    int
	tried   int // since a connection was made
	trouble error
}

func (e *encryptedZooKeeper) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: timeout}, network, address, e.config)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.trouble = err
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// why returns why there was no connection the last time, nil where there was one.
func (e *encryptedZooKeeper) why() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.trouble
}

// Init takes the servers, in an order of its own, so that clients spread over them.
func (e *encryptedZooKeeper) Init(servers []string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.servers = append([]string(nil), servers...)
	rand.Shuffle(len(e.servers), func(i, j int) { e.servers[i], e.servers[j] = e.servers[j], e.servers[i] })
	return nil
}

// Len returns the number of servers.
func (e *encryptedZooKeeper) Len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.servers)
}

// Next returns the next server, and whether all have been tried, so that there is a pause.
func (e *encryptedZooKeeper) Next() (string, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	server := e.servers[e.next%len(e.servers)]
	again := e.tried >= len(e.servers)
	if again {
		e.tried = 0
	}
	e.next++
	e.tried++
	return server, again
}

// Connected notes that a server was reached.
func (e *encryptedZooKeeper) Connected() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tried = 0
}
