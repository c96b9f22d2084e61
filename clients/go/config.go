package peloton

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"gopkg.in/yaml.v3"
)

const (
	// DefaultTimeout bounds a call whose context has no deadline.
	DefaultTimeout = 20 * time.Second
	// Version is that of this client, which its calls carry.
	Version = "0.2.0"
	// MaxMessageBytes is the largest message either way, as the servers have it.
	MaxMessageBytes = 256 << 20
	// DefaultZooKeeperRoot is the node below which leaders are elected.
	DefaultZooKeeperRoot = "/peloton"
)

// Config says where a cluster is and who calls it. An address counts before Cluster and ZooKeeper; a daemon for
// which nothing is given is called at its default port on localhost.
type Config struct {
	// Caller is the name that the daemons show in logs and metrics.
	Caller string

	// JobManager, ResourceManager and HostManager are host:port. Several, separated by commas, are tried in
	// turn until one leads.
	JobManager, ResourceManager, HostManager string

	// ZooKeeper is host:port,host:port…, followed by a path where everything is below it.
	ZooKeeper string
	// ZooKeeperRoot is the root of the elections, DefaultZooKeeperRoot where it is empty.
	ZooKeeperRoot string
	// ZooKeeperTLS encrypts connections to ZooKeeper. Nil is without encryption.
	ZooKeeperTLS *tls.Config
	// Cluster is the name of a cluster in clusters.json.
	Cluster string
	// ClusterFiles are read in place of ~/.peloton/clusters.json and /etc/peloton/clusters.json.
	ClusterFiles []string
	// MesosCluster names the Mesos cluster whose host manager is called, where there are several.
	MesosCluster string

	// TLS encrypts connections; it has the client's certificate for mutual TLS. Nil is without encryption.
	TLS *tls.Config
	// Basic is a user of BASIC auth.
	Basic *BasicAuth
	// Token returns a bearer token for each call.
	Token func(context.Context) (string, error)

	// AgentTLS lets Mesos agents, which have the output of tasks, be called by HTTPS. Nil is HTTP.
	AgentTLS *tls.Config
	// AgentBasic is a principal that Mesos agents let in, with its secret.
	AgentBasic *BasicAuth

	// Timeout bounds calls whose context has no deadline: 0 is DefaultTimeout, less is no bound.
	Timeout time.Duration
	// DialOptions are added to those of the client.
	DialOptions []grpc.DialOption
}

// BasicAuth is a user with a password. Printing it does not show the password.
type BasicAuth struct {
	Username string
	Password string
}

// String returns the user's name.
func (b BasicAuth) String() string { return b.Username }

// GoString returns the user's name.
func (b BasicAuth) GoString() string { return b.Username }

// StaticToken returns a source of always the same token, for Config.Token.
func StaticToken(token string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return token, nil }
}

// ConfigFromEnv reads the variables of the command line: JOBMGR_URL, RESMGR_URL, HOSTMGR_URL, CLUSTER_NAME,
// ZK_SERVERS, ZK_ROOT, MESOS_CLUSTER, BASIC_AUTH_CONFIG and TIMEOUT; and PELOTON_TOKEN, PELOTON_CA_FILE,
// PELOTON_CERT_FILE and PELOTON_KEY_FILE, which with ZK_TLS=1 are for ZooKeeper, too; PELOTON_AGENT_CA_FILE and
// PELOTON_AGENT_AUTH. Inside of a task that has a token (PELOTON_TOKEN_FILE), calls are the task's unless another
// identity is given; files may then be named by their paths below MESOS_SANDBOX. That token is renewed when half of
// its time is over.
func ConfigFromEnv(caller string) (Config, error) {
	config := Config{
		Caller:          caller,
		JobManager:      os.Getenv("JOBMGR_URL"),
		ResourceManager: os.Getenv("RESMGR_URL"),
		HostManager:     os.Getenv("HOSTMGR_URL"),
		Cluster:         os.Getenv("CLUSTER_NAME"),
		ZooKeeper:       strings.Join(strings.Fields(os.Getenv("ZK_SERVERS")), ","),
		ZooKeeperRoot:   os.Getenv("ZK_ROOT"),
		MesosCluster:    os.Getenv("MESOS_CLUSTER"),
	}
	if token := os.Getenv("PELOTON_TOKEN"); token != "" {
		config.Token = StaticToken(token)
	}
	return config, errors.Join(
		config.readTimeout(), config.readBasicAuth(), config.readTLS(), config.readAgents(), config.readTaskToken())
}

// ownFile returns the file that a variable names: a relative path is below the sandbox of a task.
func ownFile(variable string) string {
	file, sandbox := os.Getenv(variable), os.Getenv("MESOS_SANDBOX")
	if file == "" || sandbox == "" || filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(sandbox, file)
}

func (c *Config) readTaskToken() error {
	file := ownFile("PELOTON_TOKEN_FILE")
	if file == "" || c.JobManager == "" || c.Token != nil || os.Getenv("BASIC_AUTH_CONFIG") != "" {
		return nil
	}
	token, err := readTaskToken(file, renewedBy(*c), time.Now)
	if err == nil {
		c.Token = token.get
	}
	return err
}

func (c *Config) readTimeout() error {
	text := os.Getenv("TIMEOUT")
	if text == "" {
		return nil
	}
	timeout, err := time.ParseDuration(text)
	if err != nil || timeout <= 0 {
		return invalid("TIMEOUT", text, "a duration such as 20s")
	}
	c.Timeout = timeout
	return nil
}

func (c *Config) readBasicAuth() error {
	file := os.Getenv("BASIC_AUTH_CONFIG")
	if file == "" {
		return nil
	}
	auth, token, err := readAuth("basicAuthConfig", file)
	c.Basic = auth
	if token != "" {
		c.Token = StaticToken(token)
	}
	return err
}

func (c *Config) readTLS() error {
	ca, cert, key := ownFile("PELOTON_CA_FILE"), ownFile("PELOTON_CERT_FILE"), ownFile("PELOTON_KEY_FILE")
	config, err := TLSFromFiles(ca, cert, key)
	if ca != "" || cert != "" || key != "" {
		c.TLS = config
	}
	if encrypted := strings.ToLower(os.Getenv("ZK_TLS")); encrypted == "1" || encrypted == "true" {
		c.ZooKeeperTLS = config
	}
	return err
}

func (c *Config) readAgents() error {
	var errs []error
	if ca := os.Getenv("PELOTON_AGENT_CA_FILE"); ca != "" {
		config, err := TLSFromFiles(ca, "", "")
		c.AgentTLS, errs = config, append(errs, err)
	}
	if file := os.Getenv("PELOTON_AGENT_AUTH"); file != "" {
		auth, token, err := readAuth("agentAuth", file)
		if token != "" {
			err = invalid("agentAuth", file, "one with username and password")
		}
		c.AgentBasic, errs = auth, append(errs, err)
	}
	return errors.Join(errs...)
}

// readAuth reads username and password, or a token, from a YAML file.
func readAuth(setting, file string) (*BasicAuth, string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, "", invalid(setting, file, "a readable file: "+err.Error())
	}
	var auth struct{ Username, Password, Token string }
	if err = yaml.Unmarshal(text, &auth); err == nil && auth.Token != "" {
		return nil, auth.Token, nil
	}
	if err != nil || auth.Username == "" || auth.Password == "" {
		return nil, "", invalid(setting, file, "a YAML mapping with username and password, or token")
	}
	return &BasicAuth{auth.Username, auth.Password}, "", nil
}

// TLSFromFiles returns a configuration that trusts the authorities in ca, or the system's where it is empty, and
// shows the certificate cert with its key where they are given.
func TLSFromFiles(ca, cert, key string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return nil, invalid("caFile", ca, "a readable file: "+err.Error())
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, invalid("caFile", ca, "a PEM file with certificates")
		}
	}
	if (cert == "") != (key == "") {
		return nil, invalid("certFile", cert, fmt.Sprintf("given together with keyFile, which is %q", key))
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, invalid("certFile", cert, "a certificate for keyFile "+key+": "+err.Error())
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// zooKeeper returns the servers by which leaders are found; it is empty where addresses are used.
func (c *Config) zooKeeper() (string, error) {
	if c.ZooKeeper != "" || c.Cluster == "" {
		return c.ZooKeeper, nil
	}
	files := c.ClusterFiles
	if files == nil {
		home, _ := os.UserHomeDir()
		files = []string{filepath.Join(home, ".peloton", "clusters.json"), "/etc/peloton/clusters.json"}
	}
	var known []string
	for _, file := range files {
		clusters, err := readClusters(file)
		if err != nil {
			return "", err
		}
		for _, cluster := range clusters {
			if cluster.Name == c.Cluster {
				return cluster.ZooKeeper, nil
			}
			known = append(known, cluster.Name)
		}
	}
	names := strings.Join(known, ", ")
	if names == "" {
		names = "none"
	}
	return "", invalid("cluster", c.Cluster,
		fmt.Sprintf("in %s; clusters known there: %s", strings.Join(files, " and "), names))
}

type clusterEntry struct {
	Name      string `json:"clusterName"`
	ZooKeeper string `json:"zkURL"`
}

func readClusters(file string) ([]clusterEntry, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var content struct {
		Clusters []clusterEntry `json:"clusters"`
	}
	if err == nil {
		err = json.Unmarshal(text, &content)
	}
	if err != nil {
		return nil, invalid("clusters.json", file, `{"clusters": [{"clusterName": …, "zkURL": …}]}: `+err.Error())
	}
	for number, cluster := range content.Clusters {
		if cluster.Name == "" || cluster.ZooKeeper == "" {
			return nil, invalid(fmt.Sprintf("clusters[%d]", number), fmt.Sprintf("%+v", cluster),
				"clusterName and zkURL of a cluster in "+file)
		}
	}
	return content.Clusters, nil
}
