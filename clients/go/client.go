package peloton

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	hostsv0 "peloton.internal/client/api/v0/host/svc"
	"peloton.internal/client/api/v0/job"
	"peloton.internal/client/api/v0/job/instances"
	"peloton.internal/client/api/v0/respool"
	"peloton.internal/client/api/v0/task"
	updates "peloton.internal/client/api/v0/update/svc"
	volumesv0 "peloton.internal/client/api/v0/volume/svc"
	admin "peloton.internal/client/api/v1alpha/admin/svc"
	hosts "peloton.internal/client/api/v1alpha/host/svc"
	services "peloton.internal/client/api/v1alpha/job/stateless/svc"
	pods "peloton.internal/client/api/v1alpha/pod/svc"
	pools "peloton.internal/client/api/v1alpha/respool"
	volumes "peloton.internal/client/api/v1alpha/volume/svc"
	watches "peloton.internal/client/api/v1alpha/watch/svc"
)

// Client calls a cluster. Its fields are the stubs of the public services.
type Client struct {
	// Jobs, JobInstances, Tasks, Updates and VolumesV0 are v0 services of the job manager.
	Jobs         job.JobManagerClient
	JobInstances instances.InstanceServiceClient
	Tasks        task.TaskManagerClient
	Updates      updates.UpdateServiceClient
	VolumesV0    volumesv0.VolumeServiceClient
	// Services, Pods, Watches, Volumes and Admin are v1alpha services of the job manager.
	Services services.JobServiceClient
	Pods     pods.PodServiceClient
	Watches  watches.WatchServiceClient
	Volumes  volumes.VolumeServiceClient
	Admin    admin.AdminServiceClient
	// PoolsV0 and Pools are served by the resource manager.
	PoolsV0 respool.ResourceManagerClient
	Pools   pools.ResourcePoolServiceClient
	// HostsV0 and Hosts are served by the host manager.
	HostsV0 hostsv0.HostServiceClient
	Hosts   hosts.HostServiceClient

	conns     map[Role]*leaderConn
	agents    *http.Client
	resolvers []resolver
	config    Config
	closing   sync.Once
}

// New returns a client. It connects when it is first used. Close it.
func New(config Config) (*Client, error) {
	if config.Timeout == 0 {
		config.Timeout = DefaultTimeout
	}
	// Agents are not behind the user's proxy.
	agents := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: config.AgentTLS}}
	client := &Client{conns: map[Role]*leaderConn{}, agents: agents, config: config}
	options := client.dialOptions()
	if err := client.resolve(); err != nil {
		return nil, err
	}
	for _, conn := range client.conns {
		conn.timeout = max(config.Timeout, 0)
		conn.identify = client.identify
		conn.dial = func(address string) (*grpc.ClientConn, error) {
			return grpc.NewClient("dns:///"+address, options...)
		}
	}
	client.makeStubs()
	return client, nil
}

// Conn returns the connection to the leader of a role, for stubs of your own.
func (c *Client) Conn(role Role) grpc.ClientConnInterface { return c.conns[role] }

// Close closes all connections; calls under way fail, later ones with ErrClosed. It is safe to call it twice.
func (c *Client) Close() error {
	c.closing.Do(func() {
		for _, each := range c.resolvers {
			each.close()
		}
		for _, conn := range c.conns {
			conn.close()
		}
	})
	return nil
}

func (c *Client) makeStubs() {
	jobmgr, resmgr, hostmgr := c.conns[JobManager], c.conns[ResourceManager], c.conns[HostManager]
	c.Jobs = job.NewJobManagerClient(jobmgr)
	c.JobInstances = instances.NewInstanceServiceClient(jobmgr)
	c.Tasks = task.NewTaskManagerClient(jobmgr)
	c.Updates = updates.NewUpdateServiceClient(jobmgr)
	c.VolumesV0 = volumesv0.NewVolumeServiceClient(jobmgr)
	c.Services = services.NewJobServiceClient(jobmgr)
	c.Pods = pods.NewPodServiceClient(jobmgr)
	c.Watches = watches.NewWatchServiceClient(jobmgr)
	c.Volumes = volumes.NewVolumeServiceClient(jobmgr)
	c.Admin = admin.NewAdminServiceClient(jobmgr)
	c.PoolsV0 = respool.NewResourceManagerClient(resmgr)
	c.Pools = pools.NewResourcePoolServiceClient(resmgr)
	c.HostsV0 = hostsv0.NewHostServiceClient(hostmgr)
	c.Hosts = hosts.NewHostServiceClient(hostmgr)
}

// resolve makes a connection for each role, with what finds its leader.
func (c *Client) resolve() error {
	servers, err := c.config.zooKeeper()
	if err != nil {
		return err
	}
	var elected *zooKeeper
	if servers != "" {
		elected, err = newZooKeeper(servers, c.config.ZooKeeperRoot, c.config.MesosCluster, c.config.ZooKeeperTLS)
		if err != nil {
			return err
		}
		c.resolvers = append(c.resolvers, elected)
	}
	given := map[Role]string{
		JobManager: c.config.JobManager, ResourceManager: c.config.ResourceManager, HostManager: c.config.HostManager,
	}
	for role, address := range given {
		if address == "" && elected != nil {
			c.conns[role] = newLeaderConn(role, elected)
			continue
		}
		if address == "" {
			address = defaultAddresses[role]
		}
		list, err := parseAddresses(role, address)
		if err != nil {
			return err
		}
		c.conns[role] = newLeaderConn(role, list)
	}
	return nil
}

func (c *Client) dialOptions() []grpc.DialOption {
	secrecy := insecure.NewCredentials()
	if c.config.TLS != nil {
		secrecy = &certified{credentials.NewTLS(c.config.TLS), &sync.Map{}}
	}
	return append([]grpc.DialOption{
		grpc.WithTransportCredentials(secrecy),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(MaxMessageBytes), grpc.MaxCallSendMsgSize(MaxMessageBytes)),
		grpc.WithStatsHandler(sentNotes{}),
		grpc.WithNoProxy(), // daemons are not behind the web proxy that the environment may name
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		grpc.WithConnectParams(grpc.ConnectParams{
			// A daemon that was restarted is found again within a second or two, not after gRPC's two minutes.
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		// A connection without answers, such as one to a frozen daemon, is given up after 15 s.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
	}, c.config.DialOptions...)
}

// identify adds to a call the metadata that it lacks.
func (c *Client) identify(ctx context.Context, role Role) (context.Context, error) {
	given, _ := metadata.FromOutgoingContext(ctx)
	pairs := []string{
		"rpc-caller", c.config.Caller, "rpc-service", "peloton-" + string(role), "rpc-encoding", "proto",
		"peloton-version", Version,
		"peloton-answer-bytes", strconv.Itoa(MaxMessageBytes),
	}
	if basic := c.config.Basic; basic != nil {
		pairs = append(pairs, "username", basic.Username, "password", basic.Password)
	}
	if c.config.Token != nil {
		token, err := c.config.Token(ctx)
		if err != nil {
			return nil, newError(codes.Unauthenticated, "", "no token: "+err.Error(), err)
		}
		pairs = append(pairs, "authorization", "Bearer "+token)
	}
	if len(given) > 0 {
		missing := make([]string, 0, len(pairs))
		for i := 0; i < len(pairs); i += 2 {
			if len(given.Get(pairs[i])) == 0 {
				missing = append(missing, pairs[i], pairs[i+1])
			}
		}
		pairs = missing
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...), nil
}
