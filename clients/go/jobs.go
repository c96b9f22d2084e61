package peloton

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	apiv0 "peloton.internal/client/api/v0"
	"peloton.internal/client/api/v0/job"
	"peloton.internal/client/api/v0/job/instances"
	"peloton.internal/client/api/v0/query"
	"peloton.internal/client/api/v0/respool"
	"peloton.internal/client/api/v0/task"
	"peloton.internal/client/api/v1alpha"
	"peloton.internal/client/api/v1alpha/job/stateless"
	services "peloton.internal/client/api/v1alpha/job/stateless/svc"
)

// PoolID returns the id of the resource pool at a path such as /team/batch.
func (c *Client) PoolID(ctx context.Context, path string) (string, error) {
	answer, err := c.PoolsV0.LookupResourcePoolID(ctx, &respool.LookupRequest{
		Path: &respool.ResourcePoolPath{Value: path},
	})
	if err == nil {
		err = Check(answer)
	}
	if err != nil {
		return "", err
	}
	return answer.GetId().GetValue(), nil
}

// CreateJob creates a batch job in the pool at a path, and returns its id. Without a path the config names the
// pool. The call may be repeated: the client chooses the id.
func (c *Client) CreateJob(ctx context.Context, poolPath string, config *job.JobConfig) (string, error) {
	id := newID()
	if err := c.createJob(ctx, id, poolPath, config); err != nil && !errors.Is(err, ErrAlreadyExists) {
		return "", err // else an earlier try has made it
	}
	return id, nil
}

// CreateJobWithID creates a batch job as CreateJob does, with an id of the caller, a UUID: a program that ended
// before it had the answer may call it again. ErrAlreadyExists is returned where the id is that of another job,
// one with another name.
func (c *Client) CreateJobWithID(ctx context.Context, id, poolPath string, config *job.JobConfig) error {
	err := c.createJob(ctx, id, poolPath, config)
	if !errors.Is(err, ErrAlreadyExists) {
		return err
	}
	found, read := c.Job(ctx, id)
	if read != nil {
		return read
	}
	return sameName(err, found.GetConfig().GetName(), config.GetName())
}

// sameName returns nil where what exists already was made by an earlier call.
func sameName(exists error, found, wanted string) error {
	if found == wanted {
		return nil
	}
	return newError(codes.AlreadyExists, "", fmt.Sprintf("%v: its name is %q, not %q", exists, found, wanted), exists)
}

func (c *Client) createJob(ctx context.Context, id, poolPath string, config *job.JobConfig) error {
	if poolPath != "" {
		pool, err := c.PoolID(ctx, poolPath)
		if err != nil {
			return err
		}
		config = proto.Clone(config).(*job.JobConfig)
		config.RespoolID = &apiv0.ResourcePoolID{Value: pool}
	}
	answer, err := c.Jobs.Create(ctx, &job.CreateRequest{Id: &apiv0.JobID{Value: id}, Config: config})
	if err == nil {
		err = Check(answer)
	}
	return err
}

// CreateJobFromYAML creates a batch job from a file as `peloton job create` takes it.
func (c *Client) CreateJobFromYAML(ctx context.Context, poolPath, file string) (string, error) {
	config := &job.JobConfig{}
	if err := ReadSpec(file, config); err != nil {
		return "", err
	}
	return c.CreateJob(ctx, poolPath, config)
}

// CreateService creates a service in the pool at a path, and returns its id. Without a path the spec names the
// pool. The call may be repeated: the client chooses the id.
func (c *Client) CreateService(ctx context.Context, poolPath string, spec *stateless.JobSpec) (string, error) {
	id := newID()
	if err := c.createService(ctx, id, poolPath, spec); err != nil && !errors.Is(err, ErrAlreadyExists) {
		return "", err
	}
	return id, nil
}

// CreateServiceWithID creates a service with an id of the caller, as CreateJobWithID does a batch job.
func (c *Client) CreateServiceWithID(ctx context.Context, id, poolPath string, spec *stateless.JobSpec) error {
	err := c.createService(ctx, id, poolPath, spec)
	if !errors.Is(err, ErrAlreadyExists) {
		return err
	}
	found, read := c.Services.GetJob(ctx, &services.GetJobRequest{JobId: &apiv1alpha.JobID{Value: id}})
	if read != nil {
		return read
	}
	return sameName(err, found.GetJobInfo().GetSpec().GetName(), spec.GetName())
}

func (c *Client) createService(ctx context.Context, id, poolPath string, spec *stateless.JobSpec) error {
	if poolPath != "" {
		pool, err := c.PoolID(ctx, poolPath)
		if err != nil {
			return err
		}
		spec = proto.Clone(spec).(*stateless.JobSpec)
		spec.RespoolId = &apiv1alpha.ResourcePoolID{Value: pool}
	}
	_, err := c.Services.CreateJob(ctx, &services.CreateJobRequest{JobId: &apiv1alpha.JobID{Value: id}, Spec: spec})
	return err
}

// CreateServiceFromYAML creates a service from a file as `peloton job stateless create` takes it.
func (c *Client) CreateServiceFromYAML(ctx context.Context, poolPath, file string) (string, error) {
	spec := &stateless.JobSpec{}
	if err := ReadSpec(file, spec); err != nil {
		return "", err
	}
	return c.CreateService(ctx, poolPath, spec)
}

const (
	mostFound       = 20 // jobs of one name whose ids are told
	shortestIDStart = 4  // characters
)

// FindJob returns the id of the job of a name, or whose id begins so (four characters or more), in all pools or in
// the one at a path. It fails with ErrNotFound where there is none, and with ErrFailedPrecondition, with their ids,
// where there are several.
func (c *Client) FindJob(ctx context.Context, reference, poolPath string) (string, error) {
	answer, err := c.Jobs.Query(ctx, &job.QueryRequest{
		Spec: &job.QuerySpec{
			Reference:  reference,
			Respool:    &respool.ResourcePoolPath{Value: poolPath},
			Pagination: &query.PaginationSpec{Limit: mostFound + 1},
		},
		SummaryOnly: true,
	})
	if err == nil {
		err = Check(answer)
	}
	if err != nil {
		return "", err
	}
	var found []string
	for _, each := range answer.GetResults() { // a server that does not know the field answers with other jobs, too
		id := each.GetId().GetValue()
		begins := len(reference) >= shortestIDStart && strings.HasPrefix(id, strings.ToLower(reference))
		if each.GetName() == reference || begins {
			found = append(found, id)
		}
	}
	return only(found, reference, poolPath)
}

// only returns the id where there is one.
func only(found []string, reference, poolPath string) (string, error) {
	where := ""
	if poolPath != "" {
		where = " in the pool " + poolPath
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		return "", newError(codes.NotFound, "",
			fmt.Sprintf("no job%s has the name %q, or an id that begins so", where, reference), nil)
	}
	more := ""
	if len(found) > mostFound {
		found, more = found[:mostFound], ", …"
	}
	return "", newError(codes.FailedPrecondition, "",
		fmt.Sprintf("%q may be several jobs%s: %s%s", reference, where, strings.Join(found, ", "), more), nil)
}

// Job returns config and runtime of a batch job.
func (c *Client) Job(ctx context.Context, id string) (*job.JobInfo, error) {
	answer, err := c.Jobs.Get(ctx, &job.GetRequest{Id: &apiv0.JobID{Value: id}})
	if err == nil {
		err = Check(answer)
	}
	if err != nil {
		return nil, err
	}
	return answer.GetJobInfo(), nil
}

const (
	firstPoll   = 100 * time.Millisecond
	longestPoll = 2 * time.Second
)

// Wait waits until a batch job has ended, and returns its last state: SUCCEEDED, FAILED or KILLED. It calls
// progress, unless nil, with each new state and count of instances. It waits for as long as ctx does, also
// while no leader answers.
func (c *Client) Wait(ctx context.Context, id string, progress func(*job.RuntimeInfo)) (*job.RuntimeInfo, error) {
	var before *job.RuntimeInfo
	for interval := firstPoll; ; interval = min(interval*3/2, longestPoll) {
		info, err := c.Job(ctx, id)
		if err != nil && (ctx.Err() != nil || !passing(err)) {
			return nil, err
		}
		if err == nil {
			runtime := info.GetRuntime()
			if progress != nil && differs(before, runtime) {
				progress(runtime)
				interval = firstPoll
			}
			before = runtime
			switch runtime.GetState() {
			case job.JobState_SUCCEEDED, job.JobState_FAILED, job.JobState_KILLED:
				return runtime, nil
			}
		}
		if waited, _ := pause(ctx, interval, nil); !waited {
			return before, newError(codes.DeadlineExceeded, "",
				fmt.Sprintf("the job %s is still %s", id, before.GetState()), context.Cause(ctx))
		}
	}
}

func differs(before, now *job.RuntimeInfo) bool {
	if before.GetState() != now.GetState() || len(before.GetTaskStats()) != len(now.GetTaskStats()) {
		return true
	}
	for state, count := range now.GetTaskStats() {
		if before.GetTaskStats()[state] != count {
			return true
		}
	}
	return false
}

// passing returns whether a failure is of the moment: no leader, or none that answers.
func passing(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrDeadlineExceeded)
}

const (
	instancesPerCall = 1000
	triesPerPage     = 5
)

// Instances yields the instances of a job in order, some at a time. A page that no leader answers is read again,
// before the deadline of ctx, up to four times.
func (c *Client) Instances(ctx context.Context, id string) iter.Seq2[*task.TaskInfo, error] {
	return func(yield func(*task.TaskInfo, error) bool) {
		info, err := c.Job(ctx, id)
		if err != nil {
			yield(nil, err)
			return
		}
		end := info.GetConfig().GetInstanceCount() + info.GetRuntime().GetReleasedInstances()
		for from := uint32(0); from < end; from += instancesPerCall {
			found, err := c.page(ctx, id, from)
			if err != nil {
				yield(nil, err)
				return
			}
			for instance := from; instance < from+instancesPerCall; instance++ {
				if one, ok := found[instance]; ok && !yield(one, nil) {
					return
				}
			}
		}
	}
}

// ReleaseInstances takes instances out of a batch job, live ones after their end, and returns those that were not
// released before. Their numbers are free when they have ended, and updates that add instances use them again.
func (c *Client) ReleaseInstances(ctx context.Context, id string, numbers ...uint32) ([]uint32, error) {
	if len(numbers) == 0 {
		return nil, nil
	}
	request := &instances.ReleaseInstancesRequest{JobId: &apiv0.JobID{Value: id}}
	for _, number := range numbers {
		request.Ranges = append(request.Ranges, &task.InstanceRange{From: number, To: number + 1})
	}
	answer, err := c.JobInstances.ReleaseInstances(ctx, request)
	if err != nil {
		return nil, err
	}
	return answer.GetReleasedInstances(), nil
}

// page returns some instances of a job.
func (c *Client) page(ctx context.Context, id string, from uint32) (map[uint32]*task.TaskInfo, error) {
	var waits pauses
	for tries := 1; ; tries++ {
		answer, err := c.Tasks.List(ctx, &task.ListRequest{
			JobId: &apiv0.JobID{Value: id},
			Range: &task.InstanceRange{From: from, To: from + instancesPerCall},
		})
		if err == nil {
			err = Check(answer)
		}
		if err == nil {
			return answer.GetResult().GetValue(), nil
		}
		if tries == triesPerPage || !passing(err) || ctx.Err() != nil {
			return nil, err
		}
		if waited, _ := pause(ctx, waits.next(), nil); !waited {
			return nil, err
		}
	}
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return strings.ToLower(fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:]))
}
