// Package serve holds the command gstore serve: a store and its models over HTTP, for programs that ask for few nodes at a time.
//
// What requests read is a state: a version of the store, each node's edges side by side (package adjacency), and models. A state does not change;
// when a version or a model is added to the store, later requests get another one, and the one before is closed behind its last request.
package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/device"
)

// TokenEnv names the environment variable that may have the token instead of a file.
const TokenEnv = "GSTORE_TOKEN"

// defaultModel is the name of the model that --checkpoint says, or that was best.
const defaultModel = "default"

// options are the flags of serve.
type options struct {
	listen     string
	checkpoint string
	named      []string
	models     []modelFlag
	version    uint64
	reload     time.Duration
	mem        command.Size
	threads    int
	device     string
	scratch    string
	config     string

	tokenFile string
	cert, key string
	clientCA  string
	timeout   time.Duration
	most      int
	body      command.Size
	log       string
	token     string
}

// modelFlag is a model to serve: its name, and a checkpoint as --checkpoint takes it.
type modelFlag struct{ name, checkpoint string }

// New is the command gstore serve.
func New(e *command.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "serve STORE",
		Short: "Answer look-ups and predictions over HTTP",
		Long: `Serve answers requests over HTTP, in JSON, until it is ended by Ctrl-C or SIGTERM: nodes
with their columns, neighbours, what a model says of nodes and why, the best links,
targets of rows of a database as of now or another moment. GET / has pages for people: the
store, its runs, what a model mistakes. GET /openapi.json describes all requests, GET
/metrics is for Prometheus, and GET /healthz says that it runs.

Answers are exact: they count all neighbours. Nodes that the store does not have can be
sent with their features and edges, and are answered as if they had been appended.

The model is the one that was best in validation, or --checkpoint's; --model NAME=CHECKPOINT
serves further ones. A version that gstore append adds, and a model that gstore train adds,
are taken up without a pause; --version and --checkpoint keep what they name.

Edges lie in memory within --mem where they fit, else in an unnamed file on disk; features are
read from the store. On another address than this machine's own, --token-file or
$GSTORE_TOKEN is needed, or --client-ca with --tls-cert and --tls-key.`,
		Example: "  gstore serve cora.gstore\n" +
			"  curl 'localhost:7474/v1/nodes?id=12'\n" +
			"  curl localhost:7474/v1/predict -d '{\"nodes\": [12, 15]}'\n" +
			"  gstore serve papers.gstore --mem 8GiB --listen 0.0.0.0:7474 --token-file token",
		Args: command.StoreArgs("STORE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.ApplyConfig(cmd, o.config); err != nil {
				return err
			}
			if err := o.validate(); err != nil {
				return err
			}
			return run(cmd.Context(), e, args[0], o)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	command.Section(fs, "server", func() {
		fs.StringVar(&o.listen, "listen", "127.0.0.1:7474", "address and port to listen on; port 0 takes any free one and says which")
		fs.DurationVar(&o.timeout, "timeout", 30*time.Second, "how long a request may take")
		fs.IntVar(&o.most, "most", 256, "how many requests are worked on or wait at a time; more are told to try again (503)")
		fs.Var(&o.body, "most-body", "how large a request may be (default: 4MiB)")
		fs.StringVar(&o.log, "log", logRequests, "what standard error has: requests (a line of JSON each), errors, or off")
	})
	command.Section(fs, "security", func() {
		fs.StringVar(&o.tokenFile, "token-file", "", "file with a token that requests must have: Authorization: Bearer TOKEN (or environment variable GSTORE_TOKEN)")
		fs.StringVar(&o.cert, "tls-cert", "", "certificate of the server (PEM), for https")
		fs.StringVar(&o.key, "tls-key", "", "its key (PEM)")
		fs.StringVar(&o.clientCA, "client-ca", "", "certificates (PEM) by one of which a client's must be signed")
	})
	command.Section(fs, "model", func() {
		fs.StringVar(&o.checkpoint, "checkpoint", "", "model file, exported model, or number of a run; link prediction: number of a checkpoint (default: the best in validation, also of later runs)")
		fs.StringArrayVar(&o.named, "model", nil, "a further model, NAME=CHECKPOINT, which requests ask by its name; may be given several times")
		fs.Uint64Var(&o.version, "version", 0, "version of the store (0 = the newest, also later ones)")
		fs.DurationVar(&o.reload, "reload", 2*time.Second, "how often to look for a new version or model (0 = never)")
	})
	command.Section(fs, "out of core", func() {
		fs.Var(&o.mem, "mem", "memory bound, such as 4GiB (default: three quarters of what the machine, or the cgroup, has, unless the graph is small)")
		command.ScratchFlag(fs, &o.scratch)
	})
	command.Section(fs, "input and output", func() {
		fs.StringVar(&o.device, "device", "auto", device.Names)
		fs.IntVar(&o.threads, "threads", 0, "how many predictions are computed at a time (default: a processor each)")
		command.ConfigFlag(fs, &o.config)
	})
	command.Values(fs.Lookup("log"), logRequests, logErrors, logOff)
	return cmd
}

// Values of --log.
const (
	logRequests = "requests"
	logErrors   = "errors"
	logOff      = "off"
)

// validate finds usage errors that need no store.
func (o *options) validate() error {
	host, _, err := net.SplitHostPort(o.listen)
	switch {
	case err != nil:
		return command.Usagef("--listen %s: expected an address and a port, such as 127.0.0.1:7474", o.listen)
	case o.timeout <= 0 || o.reload < 0:
		return command.Usagef("--timeout %v, --reload %v: expected a time such as 30s", o.timeout, o.reload)
	case o.most < 1:
		return command.Usagef("--most %d: expected 1 or more", o.most)
	case o.threads < 0:
		return command.Usagef("--threads %d: expected 0 or more", o.threads)
	case o.log != logRequests && o.log != logErrors && o.log != logOff:
		return command.Usagef("--log %s: expected %s, %s or %s", o.log, logRequests, logErrors, logOff)
	case (o.cert == "") != (o.key == ""):
		return command.Usagef("--tls-cert and --tls-key go together")
	case o.clientCA != "" && o.cert == "":
		return command.Usagef("--client-ca checks the certificates of clients: it goes with --tls-cert and --tls-key")
	}
	if o.body == 0 {
		o.body = 4 << 20
	}
	if o.threads == 0 {
		o.threads = runtime.GOMAXPROCS(0)
	}
	o.models = []modelFlag{{defaultModel, o.checkpoint}}
	for _, text := range o.named {
		name, checkpoint, ok := strings.Cut(text, "=")
		if !ok || name == "" || checkpoint == "" || name == defaultModel {
			return command.Usagef("--model %s: expected NAME=CHECKPOINT, and another name than %s", text, defaultModel)
		}
		for _, m := range o.models {
			if m.name == name {
				return command.Usagef("--model %s: two models are called %s", text, name)
			}
		}
		o.models = append(o.models, modelFlag{name, checkpoint})
	}
	if err := o.readToken(); err != nil {
		return err
	}
	if !ownAddress(host) && o.token == "" && o.clientCA == "" {
		return command.Usagef("--listen %s: others than this machine could ask: give --token-file FILE (or $%s), or --client-ca with --tls-cert and --tls-key", o.listen, TokenEnv)
	}
	return nil
}

// readToken reads the token.
func (o *options) readToken() error {
	o.token = os.Getenv(TokenEnv)
	if o.tokenFile == "" {
		return nil
	}
	b, err := os.ReadFile(o.tokenFile)
	if err != nil {
		return fmt.Errorf("--token-file: %w", err)
	}
	if o.token = strings.TrimSpace(string(b)); len(o.token) < 16 || strings.ContainsAny(o.token, " \t\r\n") {
		return command.Usagef("--token-file %s: expected one word of 16 characters or more, such as `openssl rand -hex 32` writes", o.tokenFile)
	}
	return nil
}

// ownAddress reports whether only this machine can reach an address.
func ownAddress(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// run serves until ctx ends.
func run(ctx context.Context, e *command.Env, dir string, o options) (err error) {
	s, err := newServer(ctx, e, dir, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return s.serve(ctx)
}
