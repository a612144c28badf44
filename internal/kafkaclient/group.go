package kafkaclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/heartbeat"
	"github.com/segmentio/kafka-go/protocol/leavegroup"
)

var (
	// ErrRebalance says that the group is being divided anew: its members have to join again.
	ErrRebalance = errors.New("the group is being divided anew")

	// ErrNotMember says that the group does not know the member, or not in this generation.
	ErrNotMember = errors.New("not a member of the group any more")
)

// A JoinRequest is what a consumer says when it joins a group.
type JoinRequest struct {
	Member    Member // ID "" for a new one; Generation is not used
	Session   time.Duration
	Rebalance time.Duration // how long the group waits for its members to join again
	Protocol  string        // how partitions are divided; all members have the same
	Topics    []string
	UserData  []byte
}

// Joined is what a group answers.
type Joined struct {
	Member  Member
	Leader  bool     // this member divides the partitions
	Members []Joiner // for the leader
}

// A Joiner is one member, as its leader sees it.
type Joiner struct {
	ID       string
	Topics   []string
	UserData []byte
}

const consumerProtocol = "consumer"

// Join joins a group, once: it waits until all members have joined. Even where it fails, the Member says as whom to
// try again.
func (c *Client) Join(ctx context.Context, request JoinRequest) (Joined, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.RequestTimeout+request.Rebalance)
	defer cancel()
	joined := Joined{Member: request.Member}
	response, err := c.kafka.JoinGroup(ctx, joinRequest(&request, joined.Member.ID))
	if err == nil && errors.Is(response.Error, kafka.MemberIDRequired) {
		joined.Member.ID = response.MemberID // a member without one would be forgotten if this answer were lost
		response, err = c.kafka.JoinGroup(ctx, joinRequest(&request, joined.Member.ID))
	}
	if err == nil {
		err = response.Error
	}
	if err != nil {
		return joined, groupError("join group "+request.Member.Group, err)
	}
	joined.Member.ID, joined.Member.Generation = response.MemberID, response.GenerationID
	joined.Leader = response.LeaderID == response.MemberID
	for _, m := range response.Members {
		joined.Members = append(joined.Members, Joiner{ID: m.ID, Topics: m.Metadata.Topics, UserData: m.Metadata.UserData})
	}
	return joined, nil
}

func joinRequest(request *JoinRequest, id string) *kafka.JoinGroupRequest {
	return &kafka.JoinGroupRequest{
		GroupID: request.Member.Group, MemberID: id, GroupInstanceID: request.Member.Instance,
		SessionTimeout: request.Session, RebalanceTimeout: request.Rebalance, ProtocolType: consumerProtocol,
		Protocols: []kafka.GroupProtocol{{
			Name: request.Protocol, Metadata: kafka.GroupProtocolSubscription{Topics: request.Topics, UserData: request.UserData},
		}},
	}
}

// An Assignment is what members get: partitions by topic.
type Assignment map[string][]int

// Sync learns what a member gets. The leader says what every member gets.
func (c *Client) Sync(ctx context.Context, member Member, protocol string, shares map[string]Assignment, wait time.Duration) (Assignment, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.RequestTimeout+wait)
	defer cancel()
	request := &kafka.SyncGroupRequest{
		GroupID: member.Group, GenerationID: member.Generation, MemberID: member.ID, GroupInstanceID: member.Instance,
		ProtocolType: consumerProtocol, ProtocolName: protocol,
	}
	for id, share := range shares {
		request.Assignments = append(request.Assignments, kafka.SyncGroupRequestAssignment{
			MemberID: id, Assignment: kafka.GroupProtocolAssignment{AssignedPartitions: share},
		})
	}
	response, err := c.kafka.SyncGroup(ctx, request)
	if err == nil {
		err = response.Error
	}
	if err != nil {
		return nil, groupError("learn the share in group "+member.Group, err)
	}
	return response.Assignment.AssignedPartitions, nil
}

// Heartbeat tells the group, once, that the member is alive.
func (c *Client) Heartbeat(ctx context.Context, member Member, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := c.tellGroup(ctx, member.Group, &heartbeat.Request{
		GroupID: member.Group, GenerationID: int32(member.Generation), MemberID: member.ID, GroupInstanceID: member.Instance,
	})
	return groupError("heartbeat to group "+member.Group, err)
}

// Leave leaves the group, once, so that it need not wait for the session to end.
func (c *Client) Leave(ctx context.Context, member Member) error {
	ctx, cancel := context.WithTimeout(ctx, c.config.RequestTimeout)
	defer cancel()
	err := c.tellGroup(ctx, member.Group, &leavegroup.Request{
		GroupID: member.Group, Members: []leavegroup.RequestMember{{MemberID: member.ID, GroupInstanceID: member.Instance}},
	})
	return groupError("leave group "+member.Group, err)
}

func (c *Client) tellGroup(ctx context.Context, group string, message protocol.Message) error {
	answer, err := c.transport.RoundTrip(ctx, c.kafka.Addr, &groupExchange{message: message, group: group, clientID: c.config.ClientID})
	if err != nil {
		return err
	}
	told, ok := answer.(*groupAnswer)
	switch {
	case !ok:
		return errMalformed
	case told.code != 0:
		return kafka.Error(told.code)
	}
	return nil
}

func groupError(operation string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kafka.RebalanceInProgress):
		return fmt.Errorf("kafka: %s: %w", operation, ErrRebalance)
	case errors.Is(err, kafka.UnknownMemberId), errors.Is(err, kafka.IllegalGeneration), errors.Is(err, kafka.FencedInstanceID):
		return fmt.Errorf("kafka: %s: %w: %w", operation, ErrNotMember, err)
	default:
		return fmt.Errorf("kafka: %s: %w", operation, err)
	}
}

// MayPass says whether a call to a group that failed may succeed later.
func MayPass(err error) bool {
	return isTransient(err) || errors.Is(err, kafka.Unknown) || errors.Is(err, ErrRebalance) || errors.Is(err, ErrNotMember) && !errors.Is(err, kafka.FencedInstanceID)
}
