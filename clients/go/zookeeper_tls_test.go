//go:build cluster

package peloton

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// A ZooKeeper that asks for certificates is found by the environment; PELOTON_TEST_LEADER is the address of the
// resource manager that leads.
func TestSecuredZooKeeper(t *testing.T) {
	for name, c := range map[string]struct {
		missing []string
		told    string
	}{
		"right":              {nil, ""},
		"without authority":  {[]string{"PELOTON_CA_FILE"}, "x509: "},
		"without an own one": {[]string{"PELOTON_CERT_FILE", "PELOTON_KEY_FILE"}, ""},
		"without TLS":        {[]string{"ZK_TLS"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, variable := range c.missing {
				t.Setenv(variable, "")
			}
			config, err := ConfigFromEnv("go-tests")
			if err != nil {
				t.Fatal(err)
			}
			client := connect(t, config)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			found, err := client.conns[ResourceManager].resolver.address(ctx, ResourceManager, "")
			if name == "right" {
				if err != nil || found != os.Getenv("PELOTON_TEST_LEADER") {
					t.Error(found, err)
				}
			} else if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), c.told) {
				t.Error(found, err)
			}
		})
	}
}
