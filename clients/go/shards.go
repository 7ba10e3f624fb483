package redislock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// shard is the subscription at one primary of a cluster, for the locks there: messages with SPUBLISH stay inside the shard. It also uses
// SUBSCRIBE, for messages from other nodes, such as one to which a slot is moving.
type shard struct {
	address, channel string
	pubsub           *redis.PubSub
	opened           chan struct{} // closed when the subscription is open or has failed
	err              error
}

var (
	errNoSlot = errors.New("redislock: this node has no slots")
	errAnew   = errors.New("redislock: the slot of the channel has moved")
	errUnused = errors.New("redislock: no lock needs this subscription")
)

// notified returns the channel for a lock. If its shard can't be subscribed, this is the channel of the one subscription for all.
func (l *Locks) notified(h *Held) (string, error) {
	if l.cluster == nil {
		return l.channel, l.subscribed()
	}
	// This client learns from redirects which node has the slot now.
	node, err := l.cluster.MasterForKey(context.Background(), h.request.keys[0])
	if err != nil {
		return "", err
	}
	address := node.Options().Addr
	l.mutex.Lock()
	s := l.shards[address]
	if s == nil && l.closed == nil {
		s = &shard{address: address, opened: make(chan struct{})}
		l.shards[address] = s
		l.running.Go(func() { l.follow(s) })
	}
	l.mutex.Unlock()
	if s != nil {
		<-s.opened
		l.mutex.Lock()
		open := s.err == nil && l.shards[address] == s
		if open {
			h.shard = s
		}
		l.mutex.Unlock()
		if open {
			return s.channel, nil
		}
	}
	return l.channel, l.subscribed()
}

// follow reads the messages of a shard until its subscription is lost or not needed any more. Later locks get a new one.
func (l *Locks) follow(s *shard) {
	ctx := context.Background()
	err := l.open(s)
	l.mutex.Lock()
	if l.claims = false; err == nil { // the new server may know START
		err = l.closed
	}
	s.err = err
	l.mutex.Unlock()
	close(s.opened)
	for silent := false; err == nil; {
		var message any
		message, err = s.pubsub.ReceiveTimeout(ctx, silence)
		timeout, ok := err.(interface{ Timeout() bool })
		switch message := message.(type) {
		case *redis.Message:
			l.hear(message.Payload)
		case *redis.Subscription:
			err = errAnew
		}
		if ok && timeout.Timeout() && !silent {
			if err = l.unused(s); err == nil {
				err = s.pubsub.Ping(ctx)
			}
			silent = true
		} else {
			silent = false
		}
	}
	if s.pubsub != nil {
		_ = s.pubsub.Close()
	}
	if s.err != nil { // all that come meanwhile share the failure
		select {
		case <-l.done:
		case <-time.After(tryAgain):
		}
	}
	if l.endsWith(l.clientClosed()) {
		return
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.shards[s.address] == s {
		delete(l.shards, s.address)
	}
	for _, h := range l.all() {
		if h.shard == s {
			h.shard = nil
			l.doubt(h)
		}
	}
}

// open subscribes with the user's own client, so that closing this client ends the subscription.
func (l *Locks) open(s *shard) error {
	ctx, client := context.Background(), l.client.(*redis.ClusterClient)
	var serves atomic.Bool
	find := func(_ context.Context, node *redis.Client) error {
		if node.Options().Addr == s.address {
			serves.Store(true)
		}
		return nil
	}
	if err := client.ForEachMaster(ctx, find); err != nil { // this client reads the slots anew, so nobody else may use it
		return err
	} else if !serves.Load() {
		return errNoSlot
	}
	moved := 0
	for tag := range 1 << 17 { // each of the 16,384 slots has 8 of these tags on average
		node, err := client.MasterForKey(ctx, strconv.Itoa(tag))
		if err != nil {
			return err
		}
		if node.Options().Addr != s.address {
			continue
		}
		s.channel = fmt.Sprintf("%s:{%d}", l.channel, tag)
		pubsub := node.Subscribe(ctx, s.channel)
		l.mutex.Lock()
		s.pubsub = pubsub
		l.mutex.Unlock()
		err = pubsub.SSubscribe(ctx, s.channel)
		for range 2 {
			if err == nil {
				_, err = pubsub.ReceiveTimeout(ctx, silence)
			}
		}
		if moved++; !redis.HasErrorPrefix(err, "MOVED") || moved == 8 { // the node that told the slots did not know of the move yet
			return err
		}
		_ = pubsub.Close()
	}
	return errNoSlot
}

// unused returns an error if nobody needs the subscription. From then on, no lock gets this subscription.
func (l *Locks) unused(s *shard) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, h := range l.all() {
		if h.shard == s && (h.state == waiting || h.state == held) {
			return nil
		}
	}
	delete(l.shards, s.address)
	return errUnused
}
