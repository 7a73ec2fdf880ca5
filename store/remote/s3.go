package remote

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/gstore/gstore/store"
)

const (
	uploadParts = 4        // of one object at a time
	uploadBytes = 64 << 20 // of a part, and of an object that is written at once
	partsLimit  = 10_000   // of S3
	awsEndpoint = "https://s3.amazonaws.com"
)

// bucketS3 is a bucket of a server that speaks S3's protocol.
type bucketS3 struct {
	client minio.Core
	bucket string
	prefix string // ends with a slash, or is empty
	query  string // of the address: its options
}

// openS3 opens a bucket. What the address does not say comes from AWS's variables and files.
func openS3(bucket, prefix string, q url.Values) (Bucket, error) {
	for name := range q {
		if name != "endpoint" && name != "region" {
			return nil, fmt.Errorf("%w: s3://%s?%s: expected endpoint or region", store.ErrInvalid, bucket, name)
		}
	}
	endpoint := cmp.Or(q.Get("endpoint"), os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"), awsEndpoint)
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || strings.Trim(u.Path, "/") != "" {
		return nil, fmt.Errorf("%w: endpoint %q, expected https://HOST[:PORT]", store.ErrInvalid, endpoint)
	}
	providers := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}}
	if endpoint == awsEndpoint || os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE") != "" || os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI") != "" {
		providers = append(providers, &credentials.IAM{Client: &http.Client{Timeout: 2 * time.Second}}) // elsewhere nobody answers
	}
	transport, err := minio.DefaultTransport(u.Scheme == "https")
	if err != nil {
		return nil, err
	}
	transport.ResponseHeaderTimeout = answerTime
	c, err := minio.NewCore(u.Host, &minio.Options{
		Creds: credentials.NewChainCredentials(providers), Secure: u.Scheme == "https", Transport: transport,
		// Its own tries rewind a body that the connection of the last one may still read; ours begin with another.
		MaxRetries: 1,
		Region:     cmp.Or(q.Get("region"), os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")),
	})
	if err != nil {
		return nil, fmt.Errorf("%w: endpoint %q: %w", store.ErrInvalid, endpoint, err)
	}
	return &bucketS3{*c, bucket, prefix, q.Encode()}, nil
}

// Address implements [Bucket].
func (b *bucketS3) Address() string {
	return (&url.URL{Scheme: "s3", Host: b.bucket, Path: "/" + b.prefix, RawQuery: b.query}).String()
}

// String is the address without its options.
func (b *bucketS3) String() string { return strings.TrimSuffix("s3://"+b.bucket+"/"+b.prefix, "/") }

// failed names what failed, and tells the kinds of errors apart that callers ask for.
func (b *bucketS3) failed(err error, key string) error {
	if err == nil {
		return nil
	}
	kind := error(nil)
	switch r := minio.ToErrorResponse(err); {
	case r.StatusCode == http.StatusPreconditionFailed || r.Code == "PreconditionFailed":
		kind = ErrExists
	case r.StatusCode == http.StatusNotFound && r.Code != "NoSuchBucket":
		kind = ErrNotFound
	}
	where := b.String() + "/" + key
	if kind != nil {
		return fmt.Errorf("%w: %s: %w", kind, where, err)
	}
	return fmt.Errorf("%s: %w", where, err)
}

// refusedByServer reports whether a server said no, and would again.
func refusedByServer(err error) bool {
	var r minio.ErrorResponse
	if !errors.As(err, &r) {
		return false
	}
	switch r.Code {
	case "SignatureDoesNotMatch", "InvalidChunkSizeError", "BadDigest", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch", "RequestTimeout", "ConditionalRequestConflict", "IncompleteBody":
		return false // what was sent did not arrive
	}
	return r.StatusCode >= 400 && r.StatusCode < 500 && r.StatusCode != http.StatusTooManyRequests
}

// Get implements [Bucket].
func (b *bucketS3) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	o := minio.GetObjectOptions{}
	if length == 0 {
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	if length > 0 {
		if err := o.SetRange(offset, offset+length-1); err != nil {
			return nil, err
		}
	} else if offset > 0 {
		if err := o.SetRange(offset, 0); err != nil {
			return nil, err
		}
	}
	r, _, _, err := b.client.GetObject(ctx, b.bucket, b.prefix+key, o)
	return r, b.failed(err, key)
}

// Put implements [Bucket]. Each request is signed with the SHA-256 of what it sends, which the server checks.
func (b *bucketS3) Put(ctx context.Context, key string, r *io.SectionReader) error {
	o := minio.PutObjectOptions{ContentType: "application/octet-stream"}
	if r.Size() <= uploadBytes {
		return b.put(ctx, key, r, o)
	}
	id := ""
	err := retry(ctx, 0, func(ctx context.Context) (err error) {
		id, err = b.client.NewMultipartUpload(ctx, b.bucket, b.prefix+key, o)
		return b.failed(err, key)
	})
	if err != nil {
		return err
	}
	size := max(uploadBytes, (r.Size()/partsLimit>>20+1)<<20)
	parts := make([]minio.CompletePart, (r.Size()+size-1)/size)
	err = make(limit, uploadParts).each(ctx, len(parts), func(ctx context.Context, i int) error {
		at := int64(i) * size
		part := io.NewSectionReader(r, at, min(size, r.Size()-at))
		sum, err := sumOf(ctx, part)
		if err != nil {
			return err
		}
		return retry(ctx, part.Size(), func(ctx context.Context) error {
			p, err := b.client.PutObjectPart(ctx, b.bucket, b.prefix+key, id, i+1, io.NewSectionReader(part, 0, part.Size()), part.Size(), minio.PutObjectPartOptions{Sha256Hex: sum})
			parts[i] = minio.CompletePart{PartNumber: i + 1, ETag: p.ETag}
			return b.failed(err, key)
		})
	})
	if err == nil {
		err = retry(ctx, 0, func(ctx context.Context) error {
			_, err := b.client.CompleteMultipartUpload(ctx, b.bucket, b.prefix+key, id, parts, minio.PutObjectOptions{})
			return b.failed(err, key)
		})
		if o, serr := b.Stat(ctx, key); err != nil && serr == nil && o.Size == r.Size() {
			return nil // the first answer was lost
		}
	}
	if err != nil { // what is left of it costs room
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
		defer cancel()
		_ = b.client.AbortMultipartUpload(ctx, b.bucket, b.prefix+key, id)
	}
	return err
}

// abortTime is how long giving up an upload may take; Abandoned does it later.
const abortTime = 5 * time.Second

// put writes an object by one request.
func (b *bucketS3) put(ctx context.Context, key string, r *io.SectionReader, o minio.PutObjectOptions) error {
	sum, err := sumOf(ctx, io.NewSectionReader(r, 0, r.Size()))
	if err != nil {
		return err
	}
	_, err = b.client.PutObject(ctx, b.bucket, b.prefix+key, io.NewSectionReader(r, 0, r.Size()), r.Size(), "", sum, o)
	return b.failed(err, key)
}

// Abandoned implements [Bucket].
func (b *bucketS3) Abandoned(ctx context.Context, before time.Time) (n int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for u := range b.client.ListIncompleteUploads(ctx, b.bucket, b.prefix, true) {
		if u.Err != nil {
			return n, b.failed(u.Err, "")
		}
		if u.Initiated.Before(before) {
			if err := b.client.AbortMultipartUpload(ctx, b.bucket, u.Key, u.UploadID); err != nil {
				return n, b.failed(err, strings.TrimPrefix(u.Key, b.prefix))
			}
			n++
		}
	}
	return n, nil
}

// Create implements [Bucket].
func (b *bucketS3) Create(ctx context.Context, key string, body []byte) error {
	o := minio.PutObjectOptions{ContentType: "application/json"}
	o.SetMatchETagExcept("*")
	return b.put(ctx, key, io.NewSectionReader(bytes.NewReader(body), 0, int64(len(body))), o)
}

// Stat implements [Bucket].
func (b *bucketS3) Stat(ctx context.Context, key string) (Object, error) {
	o := Object{Key: key}
	err := retry(ctx, 0, func(ctx context.Context) error {
		info, err := b.client.StatObject(ctx, b.bucket, b.prefix+key, minio.StatObjectOptions{})
		o.Size, o.Modified = info.Size, info.LastModified
		return b.failed(err, key)
	})
	return o, err
}

// List implements [Bucket].
func (b *bucketS3) List(ctx context.Context, prefix string, fn func(Object) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for info := range b.client.Client.ListObjects(ctx, b.bucket, minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true}) {
		if info.Err != nil {
			return b.failed(info.Err, prefix)
		}
		if err := fn(Object{strings.TrimPrefix(info.Key, b.prefix), info.Size, info.LastModified}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Delete implements [Bucket].
func (b *bucketS3) Delete(ctx context.Context, key string) error {
	return retry(ctx, 0, func(ctx context.Context) error {
		return b.failed(b.client.RemoveObject(ctx, b.bucket, b.prefix+key, minio.RemoveObjectOptions{}), key)
	})
}
