package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/saferetry/saferetry"
	"github.com/saferetry/saferetry/idempotency"
	"github.com/saferetry/saferetry/idempotency/postgres"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The variables that make this test's program a server to be killed, in place of a run of tests.
const (
	victimSchema    = "SAFERETRY_TEST_VICTIM_SCHEMA"
	victimProcessor = "SAFERETRY_TEST_VICTIM_PROCESSOR"
	victimStops     = "SAFERETRY_TEST_VICTIM_STOPS" // after its write
)

const victimLease = 500 * time.Millisecond

// serveUntilKilled serves charges on the listener that it inherited. A charge is a call to the processor and a row.
func serveUntilKilled(schema string) {
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	c, errConfig := poolConfig(schema)
	if err != nil || errConfig != nil {
		panic(fmt.Sprint(err, errConfig))
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), c)
	if err != nil {
		panic(err)
	}
	processor := saferetry.NewClient(nil)
	charge := func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		id, err := postgres.Foreign(ctx, "charge", func(ctx context.Context, key string) (string, error) {
			return callProcessor(ctx, processor, os.Getenv(victimProcessor))
		})
		if err == nil {
			tx, _ := postgres.Tx(ctx)
			_, err = tx.Exec(ctx, "INSERT INTO charges (amount, key) VALUES (2500, $1)", idempotency.Key(ctx)+" "+id)
		}
		if os.Getenv(victimStops) != "" {
			select {}
		}
		answer(w, err)
	}
	wrap := idempotency.Middleware(postgres.New(pool), tenant,
		idempotency.WithLease(victimLease), idempotency.WithHold(5*time.Second)) // a retry waits for the lease to end
	panic(http.Serve(listener, wrap(http.HandlerFunc(charge))))
}

func callProcessor(ctx context.Context, client *http.Client, url string) (id string, err error) {
	r, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader("{}"))
	if err != nil {
		return "", err
	}
	resp, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// A processor performs each key once, and tells how often it did.
type processor struct {
	mu    sync.Mutex
	calls map[string]int
}

func newProcessor(t testing.TB) (*processor, string) {
	p := &processor{calls: make(map[string]int)}
	srv := httptest.NewServer(p)
	t.Cleanup(srv.Close)
	return p, srv.URL
}

func (p *processor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	p.calls[key]++
	fmt.Fprint(w, "charge of ", key)
}

// victims runs a serving process, and another one whenever it was killed.
type victims struct {
	t        testing.TB
	listener *os.File
	url      string
	env      []string
	running  *exec.Cmd
	output   bytes.Buffer
}

func (v *victims) start() {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), v.env...)
	cmd.ExtraFiles = []*os.File{v.listener}
	cmd.Stdout, cmd.Stderr = &v.output, &v.output
	require.NoError(v.t, cmd.Start())
	v.running = cmd
}

// kill is kill -9.
func (v *victims) kill() {
	require.NoError(v.t, v.running.Process.Kill())
	require.ErrorContains(v.t, v.running.Wait(), "signal: killed", v.output.String())
}

func newVictims(t *testing.T, schema, processorURL string) *victims {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	file, err := listener.(*net.TCPListener).File()
	require.NoError(t, err)
	t.Cleanup(func() { file.Close() })
	return &victims{t: t, listener: file, url: "http://" + listener.Addr().String() + "/charges",
		env: []string{victimSchema + "=" + schema, victimProcessor + "=" + processorURL}}
}

func TestAProcessKilledAfterItsWriteFreesTheKeyWhenTheLeaseEnds(t *testing.T) {
	schema := newSchema(t)
	pool := newPool(t, schema, nil)
	store := openStore(t, pool)
	_, foreignURL := newProcessor(t)
	v := newVictims(t, schema, foreignURL)
	v.env = append(v.env, victimStops+"=yes")
	v.start()
	hungUp := make(chan error)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	go func() {
		r, _ := http.NewRequest("POST", v.url, strings.NewReader(`{"amount":2500}`))
		r.Header.Set("Idempotency-Key", "k")
		_, err := client.Do(r)
		hungUp <- err
	}()
	require.Eventually(t, func() bool {
		return count(t, pool, `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1
			AND state = 'idle in transaction' AND query LIKE 'INSERT INTO charges%'`, schema) == 1
	}, patience, 10*time.Millisecond)
	v.kill()
	require.Error(t, <-hungUp)
	noneOpen(t, pool)

	execute(t, pool, "UPDATE idempotency_keys SET lease_ends_at = clock_timestamp() + interval '1 hour'")
	srv := serve(t, store, insertCharge)
	require.Equal(t, http.StatusConflict, post(t, srv, "k").status)
	advance(t, pool, time.Hour)
	require.Equal(t, created, post(t, srv, "k"))
	require.Equal(t, replayed, post(t, srv, "k"))
	require.Equal(t, 1, charges(t, pool))
	noneOpen(t, pool)
}

// While the process that serves them is killed 20 times, at random moments, 200 operations are performed by clients that
// ask again. A listener that outlives the processes stands for the load balancer.
func TestAProcessKilledAtAnyMomentLeavesOneEffectOfEachOperation(t *testing.T) {
	t.Parallel()
	const operations, kills, clients = 200, 20, 8
	schema := newSchema(t)
	pool := newPool(t, schema, nil)
	openStore(t, pool)
	foreign, foreignURL := newProcessor(t)
	v := newVictims(t, schema, foreignURL)
	v.start()

	base := &http.Transport{}
	defer base.CloseIdleConnections()
	client := saferetry.NewClient(&http.Client{Transport: base}, saferetry.WithMaxAttempts(100),
		saferetry.WithFullJitter(20*time.Millisecond, 200*time.Millisecond))
	var next, done atomic.Int64
	progress := make(chan struct{}, operations)
	var working sync.WaitGroup
	for range clients {
		working.Go(func() {
			for n := next.Add(1); n <= operations; n = next.Add(1) {
				ctx := saferetry.WithKey(context.Background(), "operation-"+strconv.FormatInt(n, 10))
				r, _ := http.NewRequestWithContext(ctx, "POST", v.url, strings.NewReader("{}"))
				resp, err := client.Do(r)
				if assert.NoError(t, err) {
					assert.Equal(t, http.StatusCreated, resp.StatusCode)
					resp.Body.Close()
				}
				done.Add(1)
				progress <- struct{}{}
			}
		})
	}
	for i := range kills {
		for done.Load() < int64(i*(operations-clients)/kills) {
			<-progress
		}
		time.Sleep(rand.N(30 * time.Millisecond)) // the random moment
		v.kill()
		v.start()
	}
	working.Wait()
	v.kill()

	require.Equal(t, operations, charges(t, pool))
	require.Equal(t, operations, count(t, pool, "SELECT count(DISTINCT key) FROM charges"))
	completed, inProgress := records(t, pool)
	require.Equal(t, []int{operations, 0}, []int{completed, inProgress}, "completed, stuck")
	require.Equal(t, operations, count(t, pool, "SELECT count(*) FROM idempotency_keys_intents WHERE answer IS NOT NULL"), "intents with an answer")
	require.Len(t, foreign.calls, operations, "one derived key for each operation, however often it was called")
	noneOpen(t, pool)
	t.Logf("the processor was called %d times, intents were sent %d times", sum(foreign.calls),
		count(t, pool, "SELECT sum(attempts) FROM idempotency_keys_intents"))
}

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}
