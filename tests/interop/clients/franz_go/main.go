// One round of a client of Go (franz-go): it creates a topic, writes, reads in a group, and lists.
//
// The only argument is a JSON object, the answer a line of JSON: what was read, or the error. With
// `member` as the first of more arguments it is a member of a group (`member.go`).
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type given struct {
	Brokers     []string `json:"brokers"`
	CA          string   `json:"ca"`
	User        string   `json:"user"`
	Password    string   `json:"password"`
	Certificate string   `json:"certificate"`
	Topic       string   `json:"topic"`
	Count       int      `json:"count"`
	TimeoutMs   int      `json:"timeout_ms"`
}

type answer struct {
	Read   []string `json:"read"`
	Topics []string `json:"topics"`
	Groups []string `json:"groups"`
	Error  string   `json:"error"`
}

// The first failure of a connection. The client itself tries again until its deadline.
type failure struct {
	once   sync.Once
	err    error
	cancel context.CancelFunc
}

func (f *failure) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil {
		f.once.Do(func() { f.err = err; f.cancel() })
	}
}

// What every client of the round has.
func connection(g given, f *failure) ([]kgo.Opt, error) {
	ca, err := os.ReadFile(g.CA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(ca)
	opts := []kgo.Opt{kgo.SeedBrokers(g.Brokers...), kgo.DialTLSConfig(config), kgo.WithHooks(f)}
	if g.Certificate != "" {
		own, err := tls.LoadX509KeyPair(g.Certificate, g.Certificate)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	if g.User != "" {
		login := scram.Auth{User: g.User, Pass: g.Password}
		opts = append(opts, kgo.SASL(login.AsSha512Mechanism()))
	}
	return opts, nil
}

func round(ctx context.Context, g given, f *failure) (*answer, error) {
	opts, err := connection(g, f)
	if err != nil {
		return nil, err
	}
	admin, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	manager := kadm.NewClient(admin)
	if _, err := manager.CreateTopic(ctx, 1, -1, nil, g.Topic); err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(opts,
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ConsumeTopics(g.Topic),
		kgo.ConsumerGroup(g.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for number := range g.Count {
		record := &kgo.Record{Topic: g.Topic, Value: fmt.Appendf(nil, "%d", number)}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			return nil, err
		}
	}
	found := &answer{}
	for len(found.Read) < g.Count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) { found.Read = append(found.Read, string(r.Value)) })
	}
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		return nil, err
	}
	topics, err := manager.ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	groups, err := manager.ListGroups(ctx)
	if err != nil {
		return nil, err
	}
	found.Topics, found.Groups = topics.Names(), groups.Groups()
	return found, nil
}

func main() {
	if len(os.Args) == 6 && os.Args[1] == "member" {
		if err := beMember(os.Args[2], os.Args[3], os.Args[4], os.Args[5]); err != nil {
			panic(err)
		}
		return
	}
	var g given
	if err := json.Unmarshal([]byte(os.Args[1]), &g); err != nil {
		panic(err)
	}
	timeout := time.Duration(g.TimeoutMs) * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	f := &failure{cancel: cancel}
	found, err := round(ctx, g, f)
	if err != nil {
		if f.err != nil && errors.Is(err, context.Canceled) {
			err = f.err
		}
		found = &answer{Error: err.Error()}
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		panic(err)
	}
}
