package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/semaphore"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/device"
)

// server is one run of the command.
type server struct {
	dir  string
	o    options
	e    *command.Env
	log  *slog.Logger
	devs []gpu.Device // one for each prediction that is computed at a time
	room shares

	meters  *meters
	paths   map[string]bool // that there are
	slots   chan struct{}   // of requests that are worked on or wait
	life    context.Context
	end     context.CancelFunc
	closing sync.WaitGroup
	unlimit func() // takes the bound of Go's heap back

	reloading sync.Mutex          // what is new is taken up by one at a time
	requests  *semaphore.Weighted // shares of memory
	bodies    *carrier            // of what requests bring
	answers   *carrier            // of what answers have

	mu  sync.RWMutex
	now *state
}

// shares are what parts of the server may take; 0: no bound.
type shares struct {
	lists   int64 // of a state: another one may be opened beside it
	models  int64 // of a state
	request int64 // of a prediction: one of as many as are computed at a time, or, of a large one, as much as all of these alone
}

// What requests bring, and what answers have, takes at most; fixedBytes is that and the look-up of ids.
const (
	bodiesBytes  = 16 << 20
	answersBytes = 48 << 20
	fixedBytes   = bodiesBytes + answersBytes + 16<<20
)

// codeBytes is what the program's code takes of memory.
const codeBytes = 40 << 20

// Sixteenths of the room that edges and models of a state may take, in a store of nodes and in one whose models hold embeddings or the rows of a
// database. Two states may be there at once; requests have the rest.
const (
	sixteenths                 = 16
	listsOfNodes, listsBeside  = 4, 2
	modelsOfNodes, modelsWhole = 2, 5
	requestsOfNodes            = sixteenths - 2*listsOfNodes - 2*modelsOfNodes
)

// plan shares memory out: what the program, and what requests carry, leave.
func (s *server) plan(m *store.Manifest) error {
	total := int64(s.o.mem)
	if total == 0 {
		return nil
	}
	least, _ := adjacencyBytes(m)
	smallest := budget.ProgramBytes + fixedBytes + sixteenths/listsBeside*least
	room := total - budget.ProgramBytes - fixedBytes
	if total < smallest {
		return fmt.Errorf("%w: --mem %s is too little to serve %d nodes: the smallest that works is %dMiB",
			store.ErrBudget, command.FormatSize(total), m.Nodes, (smallest+1<<20-1)>>20)
	}
	lists, models := int64(listsOfNodes), int64(modelsOfNodes)
	if m.Task() == store.TaskLink || m.DatabaseSchema() != "" {
		lists, models = listsBeside, modelsWhole
	}
	s.room = shares{lists: lists * room / sixteenths, models: models * room / sixteenths,
		request: (sixteenths - 2*lists - 2*models) * room / sixteenths / int64(len(s.devs))}
	return nil
}

// roomFor is an error of something that its share is too small for, so many sixteenths: what --mem should be.
func (s *server) roomFor(err error, what string, share int64) error {
	var small *budget.TooSmall
	if !errors.As(err, &small) || s.o.mem == 0 {
		return err
	}
	takes := small.LeastBytes - budget.ProgramBytes
	mem := budget.ProgramBytes + fixedBytes + takes*sixteenths/share
	return fmt.Errorf("%w: %s takes %s, and the server's share for it is smaller: the smallest --mem that works is %dMiB", store.ErrBudget, what, command.FormatSize(takes), (mem+1<<20-1)>>20)
}

func newServer(ctx context.Context, e *command.Env, dir string, o options) (_ *server, err error) {
	s := &server{dir: dir, o: o, e: e, unlimit: func() {}, slots: make(chan struct{}, o.most),
		bodies: newCarrier(bodiesBytes), answers: newCarrier(answersBytes), meters: newMeters()}
	// Without the command's own watcher of memory: accounts of explanations and models are theirs, the process's is the server's.
	s.life, s.end = context.WithCancel(context.Background())
	defer context.AfterFunc(ctx, s.end)()
	s.log = slog.New(slog.NewJSONHandler(logTo(e, o.log), nil))
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	ctx = s.life
	st, err := s.openStore()
	if err != nil {
		return nil, err
	}
	e.Unasked(st.Manifest(), 0, (*int64)(&s.o.mem))
	if err = s.openDevices(); err == nil {
		err = s.plan(st.Manifest())
	}
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	if s.o.mem > 0 { // the rest lies outside of Go's heap
		s.unlimit = command.LimitHeap(max(int64(s.o.mem)-codeBytes-2*s.room.lists-2*s.room.models, fixedBytes))
	}
	s.requests = semaphore.NewWeighted(int64(len(s.devs)))
	done := e.Working("opening the store and its models")
	defer done()
	snap, err := s.openSnapshot(ctx, st)
	if err != nil {
		return nil, err
	}
	all, err := s.findAll(ctx, snap.st)
	if err != nil {
		return nil, errors.Join(err, snap.close())
	}
	x, err := s.newState(ctx, snap, all)
	if err != nil {
		return nil, err
	}
	s.swap(x)
	return s, nil
}

// openDevices opens a device for each prediction at a time, of a GPU one for all.
func (s *server) openDevices() error {
	first, err := command.OpenDevice(device.Options{Name: s.o.device, Threads: 1})
	if err != nil {
		return err
	}
	if s.devs = append(s.devs, first); first.Info().OwnMemory() {
		s.o.threads = 1
	}
	for len(s.devs) < s.o.threads {
		dev, err := command.OpenDevice(device.Options{Name: s.o.device, Threads: 1})
		if err != nil {
			return err
		}
		s.devs = append(s.devs, dev)
	}
	return nil
}

// close ends everything, behind the last request.
func (s *server) close() (err error) {
	s.end()
	s.closing.Wait() // nothing is taken up any more, and what was served before is closed
	if s.now != nil {
		err = s.now.close()
	}
	s.unlimit()
	for _, d := range s.devs {
		err = errors.Join(err, d.Close())
	}
	return err
}

// logTo is where a log goes.
func logTo(e *command.Env, what string) io.Writer {
	if what == logOff || e.Quiet {
		return io.Discard
	}
	return e.Stderr
}

// shutdownTime is how long requests that are worked on have to end when the server does.
const shutdownTime = 10 * time.Second

// connections are held open for each request that may be worked on or wait; others wait to be accepted.
const connections = 4

// serve listens and answers until ctx ends.
func (s *server) serve(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.o.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	listener = netutil.LimitListener(listener, connections*s.o.most)
	scheme := "http"
	if s.o.cert != "" {
		if listener, err = s.secure(listener); err != nil {
			return err
		}
		scheme = "https"
	}
	h := &http.Server{
		Handler:           s.handler(),
		BaseContext:       func(net.Listener) context.Context { return s.life },
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       s.o.timeout + 10*time.Second,
		WriteTimeout:      s.o.timeout + 20*time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(connectionLog{s}, "", 0),
	}
	s.tell(scheme + "://" + listener.Addr().String())
	if s.o.reload > 0 && (s.o.version == 0 || s.o.checkpoint == "") {
		s.closing.Go(func() { s.watch(s.life) })
	}
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(listener) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
		err = h.Shutdown(stop)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			s.log.Error("requests did not end in time", "seconds", shutdownTime.Seconds())
			err = h.Close()
		}
	}
	s.end()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// secure is a listener by TLS, with certificates of clients where they are asked for.
func (s *server) secure(l net.Listener) (net.Listener, error) {
	pair, err := tls.LoadX509KeyPair(s.o.cert, s.o.key)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--tls-cert, --tls-key: %w", err), l.Close())
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"}}
	if s.o.clientCA != "" {
		b, err := os.ReadFile(s.o.clientCA)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("--client-ca: %w", err), l.Close())
		}
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM(b) {
			return nil, errors.Join(command.Usagef("--client-ca %s holds no certificate (PEM)", s.o.clientCA),
				l.Close())
		}
	}
	return tls.NewListener(l, c), nil
}

// tell says where the server listens and what it has.
func (s *server) tell(address string) {
	x := s.use()
	defer x.requests.Done()
	var list []modelInfo
	for _, name := range x.names {
		list = append(list, x.models[name].about())
	}
	m := x.st.Manifest()
	s.e.Event("listening", map[string]any{"address": address, "version": m.Version, "models": list,
		"edges_in_memory": x.lists.InMemory()})
	if s.e.JSON || s.e.Quiet {
		return
	}
	fmt.Fprintf(s.e.Stdout, "%s: version %d, %d nodes, %d edges\n", s.dir, m.Version, m.Nodes, m.Edges)
	if len(list) == 0 {
		fmt.Fprintf(s.e.Stdout, "no model that can be served: look-ups alone, until gstore train %s has made one\n", s.dir)
	}
	for _, l := range list {
		fmt.Fprintf(s.e.Stdout, "model %s: %s\n", l.Name, l.Which)
	}
	fmt.Fprintf(s.e.Stdout, "listening on %s\n", address)
}

// connectionLog takes what net/http says of connections, such as failed handshakes.
type connectionLog struct{ s *server }

func (c connectionLog) Write(b []byte) (int, error) {
	c.s.log.Warn("connection", "message", string(b[:max(0, len(b)-1)]))
	return len(b), nil
}
