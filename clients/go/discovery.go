package peloton

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"google.golang.org/grpc/codes"
)

// Role is a kind of daemon that clients call.
type Role string

// The daemons that serve the public services.
const (
	JobManager      Role = "jobmgr"
	ResourceManager Role = "resmgr"
	HostManager     Role = "hostmgr"
)

var defaultAddresses = map[Role]string{
	JobManager: "localhost:5392", ResourceManager: "localhost:5394", HostManager: "localhost:5391",
}

var elections = map[Role]string{
	JobManager: "jobmanager", ResourceManager: "resourcemanager", HostManager: "hostmanager",
}

// resolver finds the address of a role's leader. An error of code Unavailable may pass.
type resolver interface {
	address(ctx context.Context, role Role, failed string) (string, error)
	// watch tells the address of each new leader, empty while nobody leads, until ctx or the resolver ends.
	watch(ctx context.Context, role Role, tell func(address string))
	// others returns the addresses, other than this one, at which the leader may be, where nobody tells it.
	others(address string) []string
	close()
}

// addressList is the addresses that the caller gave, one after the other as they fail.
type addressList []string

var scheme = regexp.MustCompile(`(?i)^(grpc|http|https|dns):/+`)

func parseAddresses(role Role, text string) (addressList, error) {
	var found addressList
	for part := range strings.SplitSeq(text, ",") {
		address := strings.TrimRight(scheme.ReplaceAllString(strings.TrimSpace(part), ""), "/")
		host, port, err := net.SplitHostPort(address)
		number, _ := strconv.Atoi(port)
		if err != nil || host == "" || number < 1 || number > 65535 {
			return nil, invalid("address of "+string(role), part, "host:port, such as "+defaultAddresses[role])
		}
		found = append(found, address)
	}
	return found, nil
}

func (a addressList) address(_ context.Context, _ Role, failed string) (string, error) {
	for i, address := range a {
		if address == failed {
			return a[(i+1)%len(a)], nil
		}
	}
	return a[0], nil
}

// watch returns at once: nobody tells who leads.
func (addressList) watch(context.Context, Role, func(string)) {}

func (a addressList) others(address string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(each string) bool { return each == address })
}

func (addressList) close() {}

const (
	zooKeeperTimeout = 5 * time.Second
	watchPause       = 500 * time.Millisecond
)

// zooKeeper finds leaders as their elections announce them. It connects when it is first asked.
type zooKeeper struct {
	servers []string
	text    string
	below   string
	cluster string
	tls     *encryptedZooKeeper // nil: not encrypted

	mu      sync.Mutex
	session *session
	closed  bool
	reads   sync.WaitGroup
}

func newZooKeeper(text, root, mesosCluster string, encryption *tls.Config) (*zooKeeper, error) {
	hosts, path, _ := strings.Cut(strings.TrimPrefix(text, "zk://"), "/")
	if root == "" {
		root = DefaultZooKeeperRoot
	}
	var servers []string
	for host := range strings.SplitSeq(hosts, ",") {
		name, port, err := net.SplitHostPort(strings.TrimSpace(host))
		if err != nil || name == "" || port == "" {
			return nil, invalid("zooKeeper", text, "host:port,host:port…")
		}
		servers = append(servers, strings.TrimSpace(host))
	}
	below := "/" + strings.Trim(strings.Trim(path, "/")+"/"+strings.Trim(root, "/"), "/")
	made := &zooKeeper{servers: servers, text: text, below: below, cluster: mesosCluster}
	if encryption != nil {
		made.tls = &encryptedZooKeeper{config: encryption}
	}
	return made, nil
}

type nolog struct{}

func (nolog) Printf(string, ...any) {}

// connected returns the session, a new one where the last was lost. The caller says by reads.Done when it has read.
func (z *zooKeeper) connected() (*session, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.closed {
		return nil, ErrClosed
	}
	if z.session == nil || z.session.ended() {
		made, err := z.connect()
		if err != nil {
			return nil, newError(codes.Unavailable, "", fmt.Sprintf("ZooKeeper (%s): %v", z.text, err), err)
		}
		z.session = made
	}
	z.reads.Add(1)
	return z.session, nil
}

func (z *zooKeeper) connect() (*session, error) {
	if z.tls == nil {
		return newSession(z.servers, zk.NewDNSHostProvider(), net.DialTimeout)
	}
	return newSession(z.servers, z.tls, z.tls.dial)
}

func (z *zooKeeper) address(ctx context.Context, role Role, _ string) (string, error) {
	node := z.node(role)
	value, err := z.read(ctx, node)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return "", newError(codes.Unavailable, "", fmt.Sprintf("ZooKeeper (%s) shows no leader of %s at %s", z.text, role, node), err)
	case errors.Is(err, ErrClosed):
		return "", err
	case err != nil:
		if z.tls != nil && z.tls.why() != nil {
			err = z.tls.why()
		}
		return "", newError(codes.Unavailable, "", fmt.Sprintf("ZooKeeper (%s) cannot be asked: %v", z.text, err), err)
	}
	return leaderAddress(node, value)
}

func (z *zooKeeper) node(role Role) string {
	node := z.below + "/" + elections[role]
	if role == HostManager && z.cluster != "" {
		node += "/clusters/" + z.cluster
	}
	return node + "/leader"
}

// watch tells the address of each new leader. What ZooKeeper has while it cannot be reached is told afterwards.
func (z *zooKeeper) watch(ctx context.Context, role Role, tell func(address string)) {
	for ctx.Err() == nil {
		changed, err := z.tellOnce(ctx, z.node(role), tell)
		if errors.Is(err, ErrClosed) {
			return
		}
		if err != nil {
			pause(ctx, watchPause, nil)
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// tellOnce tells who leads, and returns what says that it has changed.
func (z *zooKeeper) tellOnce(ctx context.Context, node string, tell func(address string)) (<-chan zk.Event, error) {
	session, err := z.connected()
	if err != nil {
		return nil, err
	}
	defer z.reads.Done()
	if err := session.settled(ctx); err != nil {
		return nil, err
	}
	value, _, changed, err := session.conn.GetW(node)
	if errors.Is(err, zk.ErrNoNode) {
		var there bool
		if there, _, changed, err = session.conn.ExistsW(node); err == nil && !there {
			tell("")
		}
		return changed, err
	}
	if err != nil {
		return nil, err
	}
	if address, err := leaderAddress(node, value); err == nil {
		tell(address) // a wrong one is told by the look-up
	}
	return changed, nil
}

// others returns none: ZooKeeper tells who leads.
func (*zooKeeper) others(string) []string { return nil }

func leaderAddress(node string, value []byte) (string, error) {
	var leader struct {
		IP   string `json:"ip"`
		GRPC int    `json:"grpc"`
	}
	if err := json.Unmarshal(value, &leader); err != nil || leader.IP == "" || leader.GRPC == 0 {
		return "", invalid(node, string(value), "the address of a leader: a JSON object with ip and grpc")
	}
	return net.JoinHostPort(leader.IP, strconv.Itoa(leader.GRPC)), nil
}

// read ends with ctx: the library's Get waits for a connection as long as it takes.
func (z *zooKeeper) read(ctx context.Context, node string) ([]byte, error) {
	session, err := z.connected()
	if err != nil {
		return nil, err
	}
	type result struct {
		value []byte
		err   error
	}
	results := make(chan result, 1)
	go func() {
		defer z.reads.Done()
		value, _, err := session.conn.Get(node)
		results <- result{value, err}
	}()
	select {
	case got := <-results:
		return got.value, got.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (z *zooKeeper) close() {
	z.mu.Lock()
	session := z.session
	z.session, z.closed = nil, true
	z.mu.Unlock()
	if session != nil {
		session.conn.Close()
		z.reads.Wait()
	}
}
