package peloton

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	apiv0 "peloton.internal/client/api/v0"
	"peloton.internal/client/api/v0/task"
)

// LogOptions say which file of which run is read.
type LogOptions struct {
	// File is a path in the sandbox, stdout where it is empty.
	File string
	// Run is a Mesos task id, the current run where it is empty.
	Run string
	// Follow waits for a run that has not begun, and reads on until it has ended.
	Follow bool
}

const (
	followInterval = 500 * time.Millisecond
	bytesPerRead   = 64 << 10
)

// Logs returns a file of an instance's sandbox, read from its Mesos agent. Close it.
func (c *Client) Logs(ctx context.Context, id string, instance uint32, options LogOptions) (io.ReadCloser, error) {
	if options.File == "" {
		options.File = "stdout"
	}
	ctx, cancel := context.WithCancel(ctx)
	log := &followed{client: c, ctx: ctx, cancel: cancel, id: id, instance: instance, options: options}
	if options.Follow {
		return log, nil
	}
	at, err := log.find()
	if err != nil {
		cancel()
		return nil, err
	}
	body, err := c.read(ctx, at, "/files/download", url.Values{"path": {at.path}})
	if err != nil {
		cancel()
		return nil, err
	}
	return &cancelCloser{body, cancel}, nil
}

type cancelCloser struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (c *cancelCloser) Close() error {
	c.cancel()
	return c.ReadCloser.Close()
}

// sandboxFile is a file as its agent knows it.
type sandboxFile struct{ agent, path string }

// read asks a file's agent for it.
func (c *Client) read(ctx context.Context, f *sandboxFile, endpoint string, query url.Values) (io.ReadCloser, error) {
	scheme := "http://"
	if c.config.AgentTLS != nil {
		scheme = "https://"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+f.agent+endpoint+"?"+query.Encode(), nil)
	if err != nil {
		return nil, invalid("agent", f.agent, "host:port")
	}
	if basic := c.config.AgentBasic; basic != nil {
		request.SetBasicAuth(basic.Username, basic.Password)
	}
	answer, err := c.agents.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return nil, failed("", ctx.Err())
		}
		code := codes.Unavailable
		if certificateTrouble(err.Error()) {
			code = codes.Unauthenticated
		}
		return nil, newError(code, "", fmt.Sprintf("agent %s cannot be reached: %v", f.agent, err), err)
	}
	if answer.StatusCode != http.StatusOK {
		_ = answer.Body.Close()
		code, known := agentCodes[answer.StatusCode]
		if !known {
			code = codes.Unknown
		}
		return nil, newError(code, "", fmt.Sprintf("agent %s answered %d to %s of %s", f.agent, answer.StatusCode, endpoint, f.path), nil)
	}
	return answer.Body, nil
}

var agentCodes = map[int]codes.Code{
	http.StatusNotFound: codes.NotFound, http.StatusUnauthorized: codes.Unauthenticated,
}

// followed reads a file until its run has ended.
type followed struct {
	client   *Client
	ctx      context.Context
	cancel   context.CancelFunc
	id       string
	instance uint32
	options  LogOptions

	file   *sandboxFile
	offset int
	rest   []byte
	ended  bool
}

// Read waits for more of the file.
func (f *followed) Read(into []byte) (int, error) {
	for len(f.rest) == 0 {
		if f.ended {
			return 0, io.EOF
		}
		if err := f.more(); err != nil {
			return 0, err
		}
	}
	count := copy(into, f.rest)
	f.rest = f.rest[count:]
	return count, nil
}

// Close ends a Read under way.
func (f *followed) Close() error {
	f.cancel()
	return nil
}

func (f *followed) more() error {
	// Asked before the read: a run that has ended has written all of its output.
	over, err := f.over()
	if err == nil && f.file == nil {
		if f.file, err = f.find(); err != nil && !over && !passing(err) {
			err = errors.Join(errNotYet, err)
		}
	}
	if err == nil {
		err = f.readAll(over)
	}
	switch {
	case err == nil && len(f.rest) > 0:
		return nil
	case err == nil && over:
		f.ended = true
		return nil
	case err != nil && (over || f.ctx.Err() != nil || !f.passing(err)):
		return err
	}
	if waited, _ := pause(f.ctx, followInterval, nil); !waited {
		return failed("", f.ctx.Err())
	}
	return nil
}

// passing returns whether a failure ends when a daemon or an agent is back.
func (f *followed) passing(err error) bool { return passing(err) || errors.Is(err, errNotYet) }

// errNotYet is why there is no file to follow yet.
var errNotYet = errors.New("the run has not begun or not made the file")

func (f *followed) readAll(over bool) error {
	query := url.Values{"path": {f.file.path}, "offset": {strconv.Itoa(f.offset)}, "length": {strconv.Itoa(bytesPerRead)}}
	body, err := f.client.read(f.ctx, f.file, "/files/read", query)
	if err != nil {
		return err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, 16<<20))
	if err != nil {
		return newError(codes.Unavailable, "", "the connection to the agent broke", err)
	}
	if f.rest, err = fileData(text); err != nil {
		return newError(codes.Unknown, "", fmt.Sprintf("agent %s gave no file data: %v", f.file.agent, err), err)
	}
	f.offset += len(f.rest)
	return nil
}

func (f *followed) over() (bool, error) {
	answer, err := f.client.Tasks.Get(f.ctx, &task.GetRequest{JobId: &apiv0.JobID{Value: f.id}, InstanceId: f.instance})
	if err == nil {
		err = Check(answer)
	}
	if err != nil {
		return false, err
	}
	runtime := answer.GetResult().GetRuntime()
	current := runtime.GetMesosTaskId().GetValue()
	if f.options.Run == "" {
		f.options.Run = current
	}
	switch runtime.GetState() {
	case task.TaskState_SUCCEEDED, task.TaskState_FAILED, task.TaskState_LOST, task.TaskState_KILLED, task.TaskState_DELETED:
		return true, nil
	}
	return current != "" && current != f.options.Run, nil
}

func (f *followed) find() (*sandboxFile, error) {
	answer, err := f.client.Tasks.BrowseSandbox(f.ctx, &task.BrowseSandboxRequest{
		JobId: &apiv0.JobID{Value: f.id}, InstanceId: f.instance, TaskId: f.options.Run,
	})
	if err == nil {
		err = Check(answer)
	}
	if err != nil {
		return nil, err
	}
	port := answer.GetPort()
	if port == "" {
		port = "5051"
	}
	wanted := "/" + strings.Trim(f.options.File, "/")
	best := ""
	for _, path := range answer.GetPaths() {
		if strings.HasSuffix(path, wanted) && (best == "" || len(path) < len(best)) {
			best = path
		}
	}
	if best == "" {
		names := make([]string, 0, len(answer.GetPaths()))
		for _, path := range answer.GetPaths() {
			names = append(names, path[strings.LastIndex(path, "/")+1:])
		}
		return nil, newError(codes.NotFound, "",
			fmt.Sprintf("no file %q in the sandbox; there: %s", f.options.File, strings.Join(names, ", ")), nil)
	}
	return &sandboxFile{agent: net.JoinHostPort(answer.GetHostname(), port), path: best}, nil
}

// fileData returns `data` of an answer, byte for byte: agents put bytes that are not UTF-8 raw into their JSON,
// which encoding/json would replace. Each is carried as a character of its own.
func fileData(text []byte) ([]byte, error) {
	wide := make([]rune, len(text))
	for i, b := range text {
		wide[i] = rune(b)
	}
	var answer struct {
		Data string `json:"data"`
	}
	if err := json.Unmarshal([]byte(string(wide)), &answer); err != nil {
		return nil, err
	}
	data := make([]byte, 0, len(answer.Data))
	for _, r := range answer.Data {
		if r < 256 {
			data = append(data, byte(r))
		} else {
			data = append(data, string(r)...) // from an escape
		}
	}
	return data, nil
}
