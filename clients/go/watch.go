package peloton

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"peloton.internal/client/api/v1alpha"
	"peloton.internal/client/api/v1alpha/job/stateless"
	services "peloton.internal/client/api/v1alpha/job/stateless/svc"
	"peloton.internal/client/api/v1alpha/pod"
	"peloton.internal/client/api/v1alpha/watch"
	watches "peloton.internal/client/api/v1alpha/watch/svc"
)

// EventKind says what an event of a watch tells.
type EventKind int

const (
	// Changed is a subject as it is now, also one that was there when the watch began.
	Changed EventKind = iota + 1
	// Gone is a subject that does not exist any more.
	Gone
	// Synced follows the events by which the watcher knows all that is there: at the start, and after each cut.
	Synced
)

// PodEvent is an event of WatchPods. Pod is set where it is Changed; Name unless it is Synced.
type PodEvent struct {
	Kind EventKind
	Name string
	Pod  *pod.PodSummary
}

// ServiceEvent is an event of WatchServices. Service is set where it is Changed; ID unless it is Synced.
type ServiceEvent struct {
	Kind    EventKind
	ID      string
	Service *stateless.JobSummary
}

// WatchPods yields the pods of a job, then each change, until ctx ends or the loop is left. After a cut it goes
// on with what has changed meanwhile: the last state of each pod is never missed, states in between may be. It
// ends with an error where the job does not exist.
func (c *Client) WatchPods(ctx context.Context, jobID string) iter.Seq2[PodEvent, error] {
	job := &apiv1alpha.JobID{Value: jobID}
	subject := watchSubject[*pod.PodSummary]{
		request: &watches.WatchRequest{PodFilter: &watch.PodFilter{JobId: job}},
		key:     func(p *pod.PodSummary) string { return p.GetPodName().GetValue() },
		version: func(p *pod.PodSummary) uint64 { return p.GetStatus().GetRevision().GetVersion() },
		list: func(ctx context.Context, found func(*pod.PodSummary) error) error {
			stream, err := c.Services.ListPods(ctx, &services.ListPodsRequest{JobId: job})
			return all(stream, err, (*services.ListPodsResponse).GetPods, found)
		},
		changed: (*watches.WatchResponse).GetPods,
		gone: func(answer *watches.WatchResponse) (names []string) {
			for _, name := range answer.GetPodsNotFound() {
				names = append(names, name.GetValue())
			}
			return names
		},
	}
	return func(yield func(PodEvent, error) bool) {
		c.watch(ctx, subject.request, &watcher[*pod.PodSummary]{
			watchSubject: subject,
			known:        map[string]*pod.PodSummary{},
			yield: func(kind EventKind, name string, p *pod.PodSummary, err error) bool {
				return yield(PodEvent{kind, name, p}, err)
			},
		})
	}
}

// WatchServices yields the services that match a filter (nil matches all), then each change, as WatchPods does.
func (c *Client) WatchServices(ctx context.Context, filter *watch.StatelessJobFilter) iter.Seq2[ServiceEvent, error] {
	if filter == nil {
		filter = &watch.StatelessJobFilter{}
	}
	subject := watchSubject[*stateless.JobSummary]{
		request: &watches.WatchRequest{StatelessJobFilter: filter},
		key:     func(s *stateless.JobSummary) string { return s.GetJobId().GetValue() },
		version: func(s *stateless.JobSummary) uint64 { return s.GetStatus().GetRevision().GetVersion() },
		list: func(ctx context.Context, found func(*stateless.JobSummary) error) error {
			return c.listServices(ctx, filter, found)
		},
		changed: (*watches.WatchResponse).GetStatelessJobs,
		gone: func(answer *watches.WatchResponse) (ids []string) {
			for _, id := range answer.GetStatelessJobsNotFound() {
				ids = append(ids, id.GetValue())
			}
			return ids
		},
	}
	return func(yield func(ServiceEvent, error) bool) {
		c.watch(ctx, subject.request, &watcher[*stateless.JobSummary]{
			watchSubject: subject,
			known:        map[string]*stateless.JobSummary{},
			yield: func(kind EventKind, id string, s *stateless.JobSummary, err error) bool {
				return yield(ServiceEvent{kind, id, s}, err)
			},
		})
	}
}

// listServices reads those of the filter one by one where it names them, else all, and applies it.
func (c *Client) listServices(
	ctx context.Context, filter *watch.StatelessJobFilter, found func(*stateless.JobSummary) error,
) error {
	matching := func(summary *stateless.JobSummary) error {
		for _, wanted := range filter.GetLabels() {
			if !slices.ContainsFunc(summary.GetLabels(), func(l *apiv1alpha.Label) bool { return proto.Equal(l, wanted) }) {
				return nil
			}
		}
		return found(summary)
	}
	if len(filter.GetJobIds()) == 0 {
		stream, err := c.Services.ListJobs(ctx, &services.ListJobsRequest{})
		return all(stream, err, (*services.ListJobsResponse).GetJobs, matching)
	}
	for _, id := range filter.GetJobIds() {
		answer, err := c.Services.GetJob(ctx, &services.GetJobRequest{JobId: id, SummaryOnly: true})
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err == nil {
			err = matching(answer.GetSummary())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// all passes on what the messages of a stream hold.
func all[M, T any](stream grpc.ServerStreamingClient[M], err error, held func(*M) []T, found func(T) error) error {
	for err == nil {
		var message *M
		if message, err = stream.Recv(); err != nil {
			break
		}
		for _, one := range held(message) {
			if err := found(one); err != nil {
				return err
			}
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// watchSubject is what is watched, as the wire has it.
type watchSubject[T proto.Message] struct {
	request *watches.WatchRequest
	key     func(T) string
	version func(T) uint64
	list    func(context.Context, func(T) error) error
	changed func(*watches.WatchResponse) []T
	gone    func(*watches.WatchResponse) []string
}

// watcher holds what the consumer knows.
type watcher[T proto.Message] struct {
	watchSubject[T]
	known map[string]T
	yield func(EventKind, string, T, error) bool
}

// errLeft ends a watch whose consumer has left its loop.
var errLeft = errors.New("the loop was left")

func (w *watcher[T]) change(now T) error {
	key := w.key(now)
	if before, seen := w.known[key]; seen && (w.version(now) < w.version(before) || proto.Equal(before, now)) {
		return nil // a message that was on its way while the list was read
	}
	w.known[key] = now
	return w.tell(Changed, key, now)
}

func (w *watcher[T]) forget(key string) error {
	if _, seen := w.known[key]; !seen {
		return nil
	}
	delete(w.known, key)
	var none T
	return w.tell(Gone, key, none)
}

func (w *watcher[T]) tell(kind EventKind, key string, subject T) error {
	if !w.yield(kind, key, subject, nil) {
		return errLeft
	}
	return nil
}

// sync tells what is there that the consumer does not know, and what is gone.
func (w *watcher[T]) sync(ctx context.Context) error {
	there := map[string]bool{}
	err := w.list(ctx, func(one T) error {
		there[w.key(one)] = true
		return w.change(one)
	})
	if err != nil && (len(w.known) == 0 || !errors.Is(err, ErrNotFound)) {
		return err
	}
	var missing []string
	for key := range w.known {
		if !there[key] {
			missing = append(missing, key)
		}
	}
	slices.Sort(missing)
	for _, key := range missing {
		if err := w.forget(key); err != nil {
			return err
		}
	}
	if err != nil {
		return err // the job itself is gone
	}
	var none T
	return w.tell(Synced, "", none)
}

func (w *watcher[T]) take(answer *watches.WatchResponse) error {
	for _, one := range w.changed(answer) {
		if err := w.change(one); err != nil {
			return err
		}
	}
	for _, key := range w.gone(answer) {
		if err := w.forget(key); err != nil {
			return err
		}
	}
	return nil
}

type syncing interface {
	sync(context.Context) error
	take(*watches.WatchResponse) error
	fail(error)
}

func (w *watcher[T]) fail(err error) {
	var none T
	w.yield(0, "", none, err)
}

// watch opens one watch after the other until the consumer leaves or the failure is not of the moment.
func (c *Client) watch(ctx context.Context, request *watches.WatchRequest, to syncing) {
	var waits pauses
	for {
		began, err := c.watchOnce(ctx, request, to)
		switch {
		case errors.Is(err, errLeft):
			return
		case ctx.Err() != nil:
			to.fail(failed("", ctx.Err()))
			return
		case !resumable(err):
			to.fail(err)
			return
		}
		if began {
			waits = pauses{}
		}
		if waited, _ := pause(ctx, waits.next(), nil); !waited {
			to.fail(newError(codes.DeadlineExceeded, "", fmt.Sprintf("the watch was cut: %v", err), context.Cause(ctx)))
			return
		}
	}
}

// errCancelled is why a watch ends that somebody has cancelled by its id.
var errCancelled = errors.New("the watch was cancelled by its id")

func resumable(err error) bool {
	if errors.Is(err, ErrClosed) || errors.Is(err, errCancelled) {
		return false
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled, codes.Aborted, codes.DeadlineExceeded:
		return true
	}
	return errors.Is(err, io.EOF)
}

// watchOnce watches until the stream is cut. The watch is open before the list is read, so that nothing that
// happens from the list on is missed.
func (c *Client) watchOnce(ctx context.Context, request *watches.WatchRequest, to syncing) (began bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.Watches.Watch(ctx, request)
	if err != nil {
		return false, err
	}
	first, err := stream.Recv()
	if err != nil {
		return false, err
	}
	if err := to.sync(ctx); err != nil {
		return false, err
	}
	for {
		answer, err := stream.Recv()
		if err != nil {
			if status.Code(err) == codes.Canceled && status.Convert(err).Message() == "watch "+first.GetWatchId()+" is cancelled" {
				err = errors.Join(errCancelled, err)
			}
			return true, err
		}
		if err := to.take(answer); err != nil {
			return true, err
		}
	}
}
