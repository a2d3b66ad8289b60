package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	pollTimeout    = 100 * time.Millisecond
	commitTimeout  = 30 * time.Second
	clockMonotonic = 1
)

// One member of a group: it reads, commits, and reports as `tests/process/group_reading.py`
// describes. The client calls back only between polls, so nothing here is done at one time.
type member struct {
	// What was read and is not committed, by partition.
	uncommitted map[int32][]string
}

// Arguments: `classic` or `consumer`, bootstrap servers, group, topic.
func beMember(protocol, bootstrap, group, topic string) error {
	m := &member{uncommitted: map[int32][]string{}}
	opts := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(m.assigned),
		kgo.OnPartitionsRevoked(m.revoked),
		kgo.OnPartitionsLost(m.lost),
	}
	if protocol == "consumer" {
		opts = append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	} else {
		opts = append(opts,
			kgo.Balancers(kgo.CooperativeStickyBalancer()),
			kgo.SessionTimeout(6*time.Second),
			kgo.HeartbeatInterval(300*time.Millisecond),
		)
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	var ended atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		ended.Store(true)
	}()
	for !ended.Load() {
		m.readOnce(client)
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
	return nil
}

func (m *member) readOnce(client *kgo.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), pollTimeout)
	defer cancel()
	fetches := client.PollRecords(ctx, 100)
	fetches.EachError(func(_ string, partition int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) {
			fmt.Fprintln(os.Stderr, partition, err)
		}
	})
	fetches.EachRecord(func(r *kgo.Record) {
		m.uncommitted[r.Partition] = append(m.uncommitted[r.Partition], string(r.Value))
	})
	m.commit(client)
}

// What cannot be committed now goes with the next commit, or is read by another member.
func (m *member) commit(client *kgo.Client) {
	if len(m.uncommitted) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "commit:", err)
		return
	}
	values := []string{}
	for _, each := range m.uncommitted {
		values = append(values, each...)
	}
	printLine(values)
	clear(m.uncommitted)
}

func (m *member) assigned(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
	report("got", assigned)
}

func (m *member) revoked(ctx context.Context, client *kgo.Client, revoked map[string][]int32) {
	m.commit(client)
	m.lost(ctx, client, revoked)
}

func (m *member) lost(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	for _, partitions := range lost {
		for _, each := range partitions {
			delete(m.uncommitted, each)
		}
	}
	report("gave", lost)
}

func report(word string, partitions map[string][]int32) {
	for _, numbers := range partitions {
		printLine(map[string]any{"at": monotonic(), word: numbers})
	}
}

// Seconds of a clock that all processes of the machine share; Go's own has no common beginning.
func monotonic() float64 {
	var now syscall.Timespec
	_, _, failed := syscall.Syscall(
		syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0,
	)
	if failed != 0 {
		panic(failed)
	}
	return float64(now.Nano()) / 1e9
}

func printLine(value any) {
	if err := json.NewEncoder(os.Stdout).Encode(value); err != nil {
		panic(err)
	}
}
