// Package served starts an S3 server of this machine behind a proxy of a given rate and latency, for measurements.
package served

import (
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// Options say what is started.
type Options struct {
	Server      string        // the program, which tools/s3server/build makes
	Folder      string        // where it has its files
	MBPerSecond float64       // that the proxy lets through, of all answers; 0 = as many as come
	Latency     time.Duration // that each request waits
}

// bucketName is the one bucket.
const bucketName = "bench"

// Start starts the server, and the proxy where a rate or a latency is given. address is that of a prefix; credentials are set in this
// process' environment, which its children have too. stop ends the server, and leaves its files.
func Start(o Options) (address func(prefix string) string, stop func(), err error) {
	if err := os.MkdirAll(filepath.Join(o.Folder, bucketName), 0o777); err != nil {
		return nil, nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	host := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, nil, err
	}
	const user, password = "bench", "not-a-secret"
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": user, "AWS_SECRET_ACCESS_KEY": password, "AWS_REGION": "us-east-1", "ROOT_ACCESS_KEY": user, "ROOT_SECRET_KEY": password} {
		if err := os.Setenv(name, value); err != nil {
			return nil, nil, err
		}
	}
	cmd := exec.Command(o.Server, "--quiet", "--port", host, "posix", o.Folder)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	stop = func() { _, _ = cmd.Process.Kill(), cmd.Wait() }
	for range 200 {
		c, err := net.Dial("tcp", host)
		if err == nil {
			_ = c.Close()
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if o.MBPerSecond > 0 || o.Latency > 0 {
		if host, err = o.proxy(host); err != nil {
			stop()
			return nil, nil, err
		}
	}
	return func(prefix string) string { return "s3://" + bucketName + "/" + prefix + "?endpoint=http://" + host }, stop, nil
}

// proxy hands requests on to the server, later, and answers no faster than the rate.
func (o *Options) proxy(server string) (host string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	p := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: server})
		r.Out.Host = r.In.Host // which is signed
	}}
	if o.MBPerSecond > 0 {
		w := &wire{perByte: 1e9 / (o.MBPerSecond * 1e6)}
		p.ModifyResponse = func(r *http.Response) error {
			r.Body = paced{r.Body, w}
			return nil
		}
	}
	go func() { //nolint:errcheck // it ends with the process
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(o.Latency)
			p.ServeHTTP(w, r)
		}))
	}()
	return l.Addr().String(), nil
}

// wire is what answers share.
type wire struct {
	perByte float64 // nanoseconds
	mu      sync.Mutex
	free    time.Time // when the bytes so far have passed
}

// pass waits until n bytes have passed.
func (w *wire) pass(n int) {
	w.mu.Lock()
	if now := time.Now(); w.free.Before(now) {
		w.free = now
	}
	w.free = w.free.Add(time.Duration(float64(n) * w.perByte))
	wait := time.Until(w.free)
	w.mu.Unlock()
	if wait > 5*time.Millisecond { // sleeps are longer than asked
		time.Sleep(wait)
	}
}

type paced struct {
	io.ReadCloser
	wire *wire
}

// Read implements [io.Reader].
func (p paced) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	p.wire.pass(n)
	return n, err
}
