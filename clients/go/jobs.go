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
	if poolPath != "" {
		pool, err := c.PoolID(ctx, poolPath)
		if err != nil {
			return "", err
		}
		config = proto.Clone(config).(*job.JobConfig)
		config.RespoolID = &apiv0.ResourcePoolID{Value: pool}
	}
	id := newID()
	answer, err := c.Jobs.Create(ctx, &job.CreateRequest{Id: &apiv0.JobID{Value: id}, Config: config})
	if err == nil {
		err = Check(answer)
	}
	if err != nil && !errors.Is(err, ErrAlreadyExists) { // an earlier try has made it
		return "", err
	}
	return id, nil
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
	if poolPath != "" {
		pool, err := c.PoolID(ctx, poolPath)
		if err != nil {
			return "", err
		}
		spec = proto.Clone(spec).(*stateless.JobSpec)
		spec.RespoolId = &apiv1alpha.ResourcePoolID{Value: pool}
	}
	id := newID()
	_, err := c.Services.CreateJob(ctx, &services.CreateJobRequest{JobId: &apiv1alpha.JobID{Value: id}, Spec: spec})
	if err != nil && !errors.Is(err, ErrAlreadyExists) {
		return "", err
	}
	return id, nil
}

// CreateServiceFromYAML creates a service from a file as `peloton job stateless create` takes it.
func (c *Client) CreateServiceFromYAML(ctx context.Context, poolPath, file string) (string, error) {
	spec := &stateless.JobSpec{}
	if err := ReadSpec(file, spec); err != nil {
		return "", err
	}
	return c.CreateService(ctx, poolPath, spec)
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
		if !pause(ctx, interval) {
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

const instancesPerCall = 1000

// Instances yields the instances of a job in order, some at a time.
func (c *Client) Instances(ctx context.Context, id string) iter.Seq2[*task.TaskInfo, error] {
	return func(yield func(*task.TaskInfo, error) bool) {
		info, err := c.Job(ctx, id)
		if err != nil {
			yield(nil, err)
			return
		}
		for from := uint32(0); from < info.GetConfig().GetInstanceCount(); from += instancesPerCall {
			answer, err := c.Tasks.List(ctx, &task.ListRequest{
				JobId: &apiv0.JobID{Value: id},
				Range: &task.InstanceRange{From: from, To: from + instancesPerCall},
			})
			if err == nil {
				err = Check(answer)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			found := answer.GetResult().GetValue()
			for instance := from; instance < from+instancesPerCall; instance++ {
				if one, ok := found[instance]; ok && !yield(one, nil) {
					return
				}
			}
		}
	}
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return strings.ToLower(fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:]))
}
