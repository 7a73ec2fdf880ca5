package remote_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gstore/gstore/store/remote"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/store/verify"
)

func TestMain(m *testing.M) { storetest.Main(m, child) }

// child is a process that pushes or pulls until it is killed.
func child(role, dir string) error {
	b, err := remote.Open(os.Getenv(addressEnv))
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if role == "push" {
		_, err = remote.Push(context.Background(), b, dir, remote.PushOptions{})
	} else {
		_, err = remote.Pull(context.Background(), b, dir, remote.PullOptions{})
	}
	return err
}

const (
	addressEnv = "GSTORE_TEST_ADDRESS"
	bucketName = "graphs"
)

// server is VersityGW over a folder.
type server struct {
	t      *testing.T
	binary string
	root   string
	port   int
	cmd    *exec.Cmd
}

// startServer starts a server of S3's protocol, which tools/s3server/build makes.
func startServer(t *testing.T) *server {
	t.Helper()
	binary, err := filepath.Abs("../../.cache/versitygw")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(binary); err != nil {
		t.Skip("there is no S3 server here (tools/s3server/build makes one)")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, binary: binary, root: t.TempDir(), port: l.Addr().(*net.TCPAddr).Port}
	if err := errors.Join(l.Close(), os.Mkdir(filepath.Join(s.root, bucketName), 0o777)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "tester")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
	t.Setenv("AWS_REGION", "us-east-1")
	s.start()
	t.Cleanup(s.kill)
	return s
}

func (s *server) start() {
	s.t.Helper()
	s.cmd = exec.Command(s.binary, "--quiet", "--port", fmt.Sprintf("127.0.0.1:%d", s.port), "posix", s.root)
	s.cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY=tester", "ROOT_SECRET_KEY=not-a-secret")
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for range 200 {
		if c, err := net.Dial("tcp", s.host()); err == nil {
			_ = c.Close()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.t.Fatal("the S3 server does not answer")
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *server) host() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// address is of a prefix of the server's bucket, by way of host.
func (s *server) address(prefix, host string) string {
	return "s3://" + bucketName + "/" + prefix + "?endpoint=http://" + host
}

func (s *server) bucket(prefix, host string) remote.Bucket {
	s.t.Helper()
	b, err := remote.Open(s.address(prefix, host))
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// whole fails unless every object at b is what it must be, and the newest snapshot is the store in dir.
func whole(t *testing.T, b remote.Bucket, dir string) {
	t.Helper()
	if c, err := remote.Verify(t.Context(), b, 0, nil); err != nil || len(c.Damage) > 0 {
		t.Fatalf("%s: damage %v, %v", b, c.Damage, err)
	}
	there := filepath.Join(t.TempDir(), "there")
	if _, err := remote.Pull(t.Context(), b, there, remote.PullOptions{}); err != nil {
		t.Fatal(err)
	}
	same(t, dir, there)
}

// faults is a proxy before a server that throttles, cuts, loses answers and flips bits.
type faults struct {
	http.Server
	mu    sync.Mutex
	rng   *rand.Rand
	share float64 // of requests that something happens to
	count map[string]int
	on    atomic.Bool
}

var errCut = errors.New("cut by the test")

// startFaults starts a proxy and returns its host.
func startFaults(t *testing.T, s *server, seed uint64, share float64) (*faults, string) {
	t.Helper()
	f := &faults{rng: rand.New(rand.NewPCG(seed, 0)), share: share, count: map[string]int{}}
	f.on.Store(true)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: s.host()})
		r.Out.Host = r.In.Host // it is signed
	}}
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	proxy.ModifyResponse = func(r *http.Response) error {
		switch f.draw(r.Request.Context()) {
		case "cut answer":
			r.Body = body{io.MultiReader(io.LimitReader(r.Body, 100), errReader{}), r.Body}
		case "lost answer":
			return errCut
		case "flipped answer":
			r.Body = body{&flipper{r: r.Body, at: 50}, r.Body}
		}
		return nil
	}
	f.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		what := f.choose()
		r = r.WithContext(context.WithValue(r.Context(), faultKey{}, what))
		switch what {
		case "throttled":
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`)
			return
		case "dropped":
			panic(http.ErrAbortHandler)
		case "flipped request":
			r.Body = body{&flipper{r: r.Body, at: 120}, r.Body}
		case "cut request":
			r.Body = body{io.MultiReader(io.LimitReader(r.Body, 100), errReader{}), r.Body}
		}
		proxy.ServeHTTP(w, r)
	})
	f.ErrorLog = log.New(io.Discard, "", 0)
	proxy.ErrorLog = f.ErrorLog
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = f.Serve(l) }()
	t.Cleanup(func() { _ = f.Close() })
	return f, l.Addr().String()
}

type faultKey struct{}

func (f *faults) draw(ctx context.Context) string {
	what, _ := ctx.Value(faultKey{}).(string)
	return what
}

func (f *faults) choose() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.on.Load() || f.rng.Float64() >= f.share {
		return ""
	}
	all := []string{"throttled", "dropped", "flipped request", "cut request", "cut answer", "lost answer", "flipped answer"}
	what := all[f.rng.IntN(len(all))]
	f.count[what]++
	return what
}

type body struct {
	io.Reader
	io.Closer
}

// flipper flips a bit of the at-th byte that goes by.
type flipper struct {
	r  io.Reader
	at int
}

func (f *flipper) Read(b []byte) (int, error) {
	n, err := f.r.Read(b)
	if f.at >= 0 && f.at < n {
		b[f.at] ^= 4
	}
	f.at -= n
	return n, err
}

// What a network does to requests is mended by another try, or is an error; nothing wrong arrives, and nothing half is seen.
func TestS3Faults(t *testing.T) {
	s := startServer(t)
	f, host := startFaults(t, s, 40, .12)
	dir := makeStore(t, 400)
	there := filepath.Join(t.TempDir(), "there")
	clear, failed := s.bucket("faults", s.host()), 0
	for range rounds(6, 60) {
		b := s.bucket("faults", host) // a new one, without connections
		if _, err := remote.Push(t.Context(), b, dir, remote.PushOptions{}); err != nil {
			t.Log(err)
			failed++
			push(t, clear, dir)
		}
		if _, err := remote.Pull(t.Context(), b, there, remote.PullOptions{}); err != nil {
			t.Log(err)
			failed++
			if _, err := remote.Pull(t.Context(), clear, there, remote.PullOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		same(t, dir, there)
		commit(t, dir)
	}
	push(t, clear, dir)
	whole(t, clear, dir)
	t.Logf("%v; %d calls gave up", f.count, failed)
}

// Many push at once: one makes each snapshot.
func TestS3PushAtOnce(t *testing.T) {
	s := startServer(t)
	testPushAtOnce(t, s.bucket("atonce", s.host()))
}

// A client or the server that is killed leaves the snapshot before, or the next; the next push ends what was begun.
func TestS3Kills(t *testing.T) {
	s := startServer(t)
	b := s.bucket("kills", s.host())
	t.Setenv(addressEnv, s.address("kills", s.host()))
	rng := rand.New(rand.NewPCG(40, 1))
	dir, there := makeStore(t, 3000), filepath.Join(t.TempDir(), "there")
	begin := time.Now()
	push(t, b, dir)
	took := time.Since(begin)
	if _, err := remote.Pull(t.Context(), b, there, remote.PullOptions{}); err != nil {
		t.Fatal(err)
	}
	for n := range rounds(10, 100) {
		commit(t, dir)
		before, err := remote.Read(t.Context(), b, 0)
		if err != nil {
			t.Fatal(err)
		}
		role, at := []string{"push", "pull"}[n%2], dir
		if role == "pull" {
			push(t, b, dir)
			at = there
		}
		c := storetest.Start(t, role, at)
		kill := func() {
			_ = c.Cmd.Process.Kill()
			_, _ = c.End()
		}
		time.Sleep(time.Duration(rng.Int64N(int64(took) + 1)))
		if n%4 < 2 {
			kill()
		} else {
			s.kill()
			kill() // before it tries again for a minute
			s.start()
		}
		if v, err := verify.Store(t.Context(), there, verify.Options{Workers: 1}); err != nil || len(v.Damage) > 0 {
			t.Fatalf("kill %d of a %s: the pulled store: %v, %v", n, role, v.Damage, err)
		}
		head, err := remote.Read(t.Context(), b, 0)
		if err != nil || role == "push" && head.Number > before.Number+1 {
			t.Fatalf("kill %d of a %s: snapshot %+v after %+v, %v", n, role, head, before, err)
		}
		push(t, b, dir)
		if _, err := remote.Pull(t.Context(), b, there, remote.PullOptions{}); err != nil {
			t.Fatal(err)
		}
		same(t, dir, there)
	}
	whole(t, b, dir)
}

// pattern is bytes that differ from place to place.
type pattern struct{ failsAt int64 }

func (p pattern) ReadAt(b []byte, at int64) (int, error) {
	if p.failsAt > 0 && at+int64(len(b)) > p.failsAt {
		return 0, errFails
	}
	for i := range b {
		x := uint64(at+int64(i)) * 0x9e3779b97f4a7c15
		b[i] = byte(x >> 56)
	}
	return len(b), nil
}

// A large object goes in parts, each of which is tried again where the network fails it, and is whole; one that cannot be read leaves nothing.
func TestS3Large(t *testing.T) {
	const size = 150 << 20
	s := startServer(t)
	f, host := startFaults(t, s, 3, .5)
	b, clear := s.bucket("large", host), s.bucket("large", s.host())
	if err := b.Put(t.Context(), "x", io.NewSectionReader(pattern{}, 0, size)); err != nil {
		t.Fatal(err)
	}
	want, got := sha256.New(), sha256.New()
	if _, err := io.Copy(want, io.NewSectionReader(pattern{}, 0, size)); err != nil {
		t.Fatal(err)
	}
	r, err := clear.Get(t.Context(), "x", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(got, r); err != nil || n != size || !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		t.Errorf("%d bytes, %v, or they differ", n, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := clear.Put(t.Context(), "y", io.NewSectionReader(pattern{100 << 20}, 0, size)); !errors.Is(err, errFails) {
		t.Errorf("a file that cannot be read: %v", err)
	}
	if _, err := clear.Stat(t.Context(), "y"); !errors.Is(err, remote.ErrNotFound) {
		t.Errorf("it is there: %v", err)
	}
	if n, err := clear.Abandoned(t.Context(), time.Now().Add(time.Hour)); err != nil || n != 0 {
		t.Errorf("%d uploads were left, %v", n, err)
	}
	t.Log(f.count)
}

// The server's own word on what is wrong reaches the user.
func TestS3Refusals(t *testing.T) {
	s := startServer(t)
	dir := makeStore(t, 20)
	_, err := remote.Push(t.Context(), mustOpen(t, "s3://nobody/x?endpoint=http://"+s.host()), dir, remote.PushOptions{})
	if err == nil || !strings.Contains(err.Error(), "bucket") {
		t.Errorf("a bucket that is not there: %v", err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "another")
	if _, err := remote.Push(t.Context(), s.bucket("x", s.host()), dir, remote.PushOptions{}); err == nil || !strings.Contains(err.Error(), "signature") {
		t.Errorf("a wrong secret: %v", err)
	}
}

func mustOpen(t *testing.T, address string) remote.Bucket {
	t.Helper()
	b, err := remote.Open(address)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// unconditional overwrites what it is to create.
type unconditional struct{ remote.Bucket }

func (u unconditional) Create(ctx context.Context, key string, b []byte) error {
	return u.Put(ctx, key, io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b))))
}

// A server that ignores conditions is found out before anything is pushed.
func TestUnconditional(t *testing.T) {
	b := open(t)
	if _, err := remote.Push(t.Context(), unconditional{b}, makeStore(t, 20), remote.PushOptions{}); !errors.Is(err, remote.ErrUnconditional) {
		t.Errorf("%v", err)
	}
	if _, err := remote.Numbers(t.Context(), b); !errors.Is(err, remote.ErrNotFound) {
		t.Errorf("something is left: %v", err)
	}
}

// rounds is how often a test does what it does: more where all is to be tested.
func rounds(some, all int) int {
	if os.Getenv("GSTORE_FULL_TESTS") != "" {
		return all
	}
	return some
}
