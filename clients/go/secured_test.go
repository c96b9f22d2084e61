//go:build cluster

package peloton

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"peloton.internal/client/api/v0/job"
	"peloton.internal/client/api/v1alpha/watch"
)

// These tests need a cluster that asks who calls: the job manager for certificates and bearer tokens, the
// resource manager for certificates and passwords, the agents for passwords. The environment has what is right,
// and in PELOTON_TEST_JOB a job that has written hello; PELOTON_TEST_STRANGERS is a folder with certificates of
// another authority, and tokens that are wrong.

const missingJob = "00000000-0000-4000-8000-000000000000"

func stranger(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(os.Getenv("PELOTON_TEST_STRANGERS"), name)
}

func strangersToken(name string) func(*testing.T, *Config) {
	return func(t *testing.T, config *Config) {
		text, err := os.ReadFile(stranger(t, name+".token"))
		if err != nil {
			t.Fatal(err)
		}
		config.Token = StaticToken(string(text))
	}
}

func certificates(ca, cert, key string) func(*testing.T, *Config) {
	return func(t *testing.T, config *Config) {
		made, err := TLSFromFiles(ca, cert, key)
		if err != nil {
			t.Fatal(err)
		}
		config.TLS = made
	}
}

func lookUpJob(t *testing.T, client *Client) error {
	_, err := client.Job(context.Background(), missingJob)
	return err
}

func lookUpPool(t *testing.T, client *Client) error {
	_, err := client.PoolID(context.Background(), "/")
	return err
}

func createJob(t *testing.T, client *Client) error {
	_, err := client.CreateJob(context.Background(), "", &job.JobConfig{Name: "denied"})
	return err
}

func watchServices(t *testing.T, client *Client) error {
	for _, err := range client.WatchServices(context.Background(), &watch.StatelessJobFilter{}) {
		return err
	}
	return nil
}

func readLog(t *testing.T, client *Client) error {
	return readOutput(t, client, LogOptions{})
}

func followLog(t *testing.T, client *Client) error {
	return readOutput(t, client, LogOptions{Follow: true})
}

func readOutput(t *testing.T, client *Client, options LogOptions) error {
	log, err := client.Logs(within(t, time.Minute), os.Getenv("PELOTON_TEST_JOB"), 0, options)
	if err != nil {
		return err
	}
	defer log.Close()
	text, err := io.ReadAll(log)
	if err == nil && string(text) != "hello\n" {
		t.Errorf("%q", text)
	}
	return err
}

func TestSecured(t *testing.T) {
	ca, cert, key := os.Getenv("PELOTON_CA_FILE"), os.Getenv("PELOTON_CERT_FILE"), os.Getenv("PELOTON_KEY_FILE")
	theirs := func(name string) string { return stranger(t, name) }
	noToken := func(_ *testing.T, config *Config) { config.Token = nil }
	wrongPassword := func(_ *testing.T, config *Config) { config.Basic = &BasicAuth{"admin", "wrong"} }
	noPassword := func(_ *testing.T, config *Config) { config.Basic = nil }
	noTLS := func(_ *testing.T, config *Config) { config.TLS, config.Timeout = nil, 3*time.Second }
	anotherAgent := func(t *testing.T, config *Config) {
		made, err := TLSFromFiles(theirs("ca.crt"), "", "")
		if err != nil {
			t.Fatal(err)
		}
		config.AgentTLS = made
	}
	wrongSecret := func(_ *testing.T, config *Config) { config.AgentBasic = &BasicAuth{"peloton", "wrong"} }
	noSecret := func(_ *testing.T, config *Config) { config.AgentBasic = nil }
	right := func(*testing.T, *Config) {}
	for name, c := range map[string]struct {
		change func(*testing.T, *Config)
		call   func(*testing.T, *Client) error
		want   error
	}{
		"right token":             {right, lookUpJob, ErrNotFound},
		"right token of a watch":  {right, watchServices, nil},
		"right password":          {right, lookUpPool, nil},
		"forged token":            {strangersToken("forged"), lookUpJob, ErrUnauthenticated},
		"expired token":           {strangersToken("expired"), lookUpJob, ErrUnauthenticated},
		"token for another":       {strangersToken("elsewhere"), lookUpJob, ErrUnauthenticated},
		"garbage for a token":     {strangersToken("garbage"), lookUpJob, ErrUnauthenticated},
		"no token":                {noToken, lookUpJob, ErrUnauthenticated},
		"forged token of a watch": {strangersToken("forged"), watchServices, ErrUnauthenticated},
		"a reader's token":        {strangersToken("reader"), lookUpJob, ErrNotFound},
		"a reader creates":        {strangersToken("reader"), createJob, ErrPermissionDenied},
		"wrong password":          {wrongPassword, lookUpPool, ErrUnauthenticated},
		"no password":             {noPassword, lookUpPool, ErrUnauthenticated},
		"no certificate":          {certificates(ca, "", ""), lookUpJob, ErrUnauthenticated},
		"a stranger's certificate": {
			certificates(ca, theirs("stranger.crt"), theirs("stranger.key")), lookUpJob, ErrUnauthenticated,
		},
		"another authority":             {certificates(theirs("ca.crt"), cert, key), lookUpJob, ErrUnauthenticated},
		"output of an agent":            {right, readLog, nil},
		"output that is followed":       {right, followLog, nil},
		"an agent of another authority": {anotherAgent, readLog, ErrUnauthenticated},
		"wrong secret of agents":        {wrongSecret, readLog, ErrUnauthenticated},
		"no secret of agents":           {noSecret, followLog, ErrUnauthenticated},
		"no TLS":                        {noTLS, lookUpJob, ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, err := ConfigFromEnv("go-tests")
			if err != nil {
				t.Fatal(err)
			}
			c.change(t, &config)
			err = c.call(t, connect(t, config))
			// The deadline of a call that is made again may come during a try.
			late := c.want == ErrUnavailable && errors.Is(err, ErrDeadlineExceeded)
			if !errors.Is(err, c.want) && !late {
				t.Errorf("%v, not %v", err, c.want)
			}
		})
	}
}

func TestSecuredTaskTokenIsRenewed(t *testing.T) {
	old := os.Getenv("PELOTON_TEST_TASK_TOKEN")
	config, err := ConfigFromEnv("go-tests")
	if err != nil {
		t.Fatal(err)
	}
	token, err := renewedBy(config)(within(t, time.Minute), old)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := expiry(old)
	if after, ok := expiry(token); !ok || after.Before(before) {
		t.Error("the new token expires before the old one")
	}
	config.Token, config.Basic = StaticToken(token), nil
	client := connect(t, config)
	if _, err := client.Job(within(t, time.Minute), os.Getenv("PELOTON_TEST_TASK_JOB")); err != nil {
		t.Error(err)
	}
	if err := lookUpJob(t, client); !errors.Is(err, ErrPermissionDenied) {
		t.Error(err)
	}
	if _, err := renewedBy(config)(within(t, time.Minute), "peloton-task.x.1000.y"); !errors.Is(err, ErrUnauthenticated) {
		t.Error(err)
	}
}
