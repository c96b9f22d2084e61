package peloton

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	health "google.golang.org/grpc/health/grpc_health_v1"
)

const (
	// doubtAfter is how long a call may be without an answer before the other addresses are asked who leads.
	doubtAfter   = 400 * time.Millisecond
	probeTimeout = 400 * time.Millisecond
)

// served is a service of each role that its leader alone serves.
var served = map[Role]string{
	JobManager:      "peloton.api.v0.job.JobManager",
	ResourceManager: "peloton.api.v0.respool.ResourceManager",
	HostManager:     "peloton.api.v0.host.svc.HostService",
}

// told takes what an election says: who leads now, empty where nobody does. New calls go there. Those under way
// elsewhere that may be repeated end, as soon as there is another leader.
func (c *leaderConn) told(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil || address == c.announced {
		return
	}
	c.announced = address
	if c.current != nil && c.current.address != address {
		c.forget()
	}
	if address == "" {
		return
	}
	if c.former != nil && c.former.address != address {
		c.former.leave()
	}
	if c.current == nil && c.move(address) != nil {
		return // the next look-up tells what is wrong with the address
	}
	close(c.news)
	c.news = make(chan struct{})
}

// anyNews returns what is closed when another one is known to lead.
func (c *leaderConn) anyNews() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.news
}

// doubt begins to seek the leader elsewhere while a call is without an answer. The caller tells when it has one.
func (c *leaderConn) doubt(at *target) (answered func()) {
	others := c.resolver.others(at.address)
	if len(others) == 0 {
		return func() {}
	}
	at.waiting.Add(1)
	timer := time.AfterFunc(doubtAfter, func() { c.seek(at, others) })
	return func() {
		at.waiting.Add(-1)
		timer.Stop()
	}
}

// seek asks the other addresses who leads until one does, or the target has answered all calls.
func (c *leaderConn) seek(at *target, others []string) {
	if !at.seeking.CompareAndSwap(false, true) {
		return
	}
	defer at.seeking.Store(false)
	for c.doubts(at) {
		if leader := c.ask(at, others); leader != "" {
			c.wait.Done()
			c.told(leader)
			return
		}
		pause(c.ctx, doubtAfter, nil)
		c.wait.Done()
	}
}

// doubts returns whether to seek on; the caller ends one turn by c.wait.Done then.
func (c *leaderConn) doubts(at *target) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil || c.current != at || at.waiting.Load() == 0 {
		return false
	}
	c.announced = at.address
	c.wait.Add(1)
	return true
}

// ask returns the address that leads in place of the target: one that says so, while the target does not.
func (c *leaderConn) ask(at *target, others []string) string {
	ctx, cancel := context.WithTimeout(c.ctx, probeTimeout)
	defer cancel()
	leads := make([]bool, len(others))
	still := false
	var group sync.WaitGroup
	asking := func(conn *grpc.ClientConn, leads *bool) {
		group.Add(1)
		go func() {
			defer group.Done()
			*leads = c.leads(ctx, conn)
		}()
	}
	asking(at.conn, &still)
	for i, address := range others {
		if conn := c.probe(address); conn != nil {
			asking(conn, &leads[i])
		}
	}
	group.Wait()
	for i, address := range others {
		if leads[i] && !still {
			return address
		}
	}
	return ""
}

// probe returns a connection to an address, kept from one question to the next; nil where the client is closed.
func (c *leaderConn) probe(address string) *grpc.ClientConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil
	}
	if conn := c.probes[address]; conn != nil {
		return conn
	}
	conn, err := c.dial(address)
	if err != nil {
		return nil
	}
	if c.probes == nil {
		c.probes = map[string]*grpc.ClientConn{}
	}
	c.probes[address] = conn
	return conn
}

func (c *leaderConn) leads(ctx context.Context, conn *grpc.ClientConn) bool {
	ctx, err := c.identify(ctx, c.role)
	if err != nil {
		return false
	}
	answer, err := health.NewHealthClient(conn).Check(ctx, &health.HealthCheckRequest{Service: served[c.role]})
	return err == nil && answer.GetStatus() == health.HealthCheckResponse_SERVING
}
