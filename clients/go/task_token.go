package peloton

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	// renewalTimeout bounds one renewal; after one that failed, the next is as late.
	renewalTimeout = 20 * time.Second
	getToken       = "/peloton.private.jobmgr.access.TaskAccessService/GetToken"
)

// taskToken is the token of the task in which the program runs. It is renewed when half of its time is over.
type taskToken struct {
	renewed func(context.Context, string) (string, error)
	now     func() time.Time

	mu       sync.Mutex
	token    string
	due      time.Time
	renewing bool
}

// readTaskToken returns the token in a file; one that has expired already is renewed here. Errors do not show it.
func readTaskToken(
	file string, renewed func(context.Context, string) (string, error), now func() time.Time,
) (*taskToken, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, invalid("PELOTON_TOKEN_FILE", file, "a readable file")
	}
	made := &taskToken{renewed: renewed, now: now}
	if !made.take(strings.TrimSpace(string(content))) {
		return nil, invalid("PELOTON_TOKEN_FILE", file, "a file with the token of a task")
	}
	if expires, _ := expiry(made.token); !now().Before(expires) {
		made.renew()
	}
	return made, nil
}

// get returns the token for a call, and has it renewed behind where that is due.
func (t *taskToken) get(context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now().After(t.due) && !t.renewing {
		t.renewing = true
		go t.renew()
	}
	return t.token, nil
}

// renew takes a new token. Where there is none, the calls tell why, and a later one tries again.
func (t *taskToken) renew() {
	ctx, cancel := context.WithTimeout(context.Background(), renewalTimeout)
	defer cancel()
	t.mu.Lock()
	old := t.token
	t.mu.Unlock()
	token, err := t.renewed(ctx, old)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.renewing = false
	if err != nil || !t.take(token) {
		t.due = t.now().Add(renewalTimeout)
	}
}

// take keeps a token, and says whether it is one.
func (t *taskToken) take(token string) bool {
	expires, ok := expiry(token)
	if ok {
		now := t.now()
		t.token, t.due = token, now.Add(expires.Sub(now)/2)
	}
	return ok
}

// expiry returns when a token expires; false where it is none.
func expiry(token string) (time.Time, bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 4 {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseInt(parts[2], 10, 64)
	return time.Unix(seconds, 0), err == nil
}

// renewedBy returns a renewal at the job manager of a config.
func renewedBy(config Config) func(context.Context, string) (string, error) {
	return func(ctx context.Context, token string) (string, error) {
		config.Token, config.Basic = StaticToken(token), nil
		client, err := New(config)
		if err != nil {
			return "", err
		}
		defer client.Close()
		// GetTokenResponse begins as StringValue does: with a string of number 1. It is no message of the public API.
		var answer wrapperspb.StringValue
		err = client.Conn(JobManager).Invoke(ctx, getToken, &emptypb.Empty{}, &answer)
		return answer.Value, err
	}
}
