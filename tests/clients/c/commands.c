/* Raw commands through hiredis, each on a context of its own, in RESP2 (and RESP3 from hiredis 1.0 on); and the functions
 * of the documentation. hiredis has no pool: a context is a connection. */
#define main program
#include "docs/lock.c"
#undef main

#undef NDEBUG
#include <assert.h>
#include <pthread.h>
#include <time.h>

static redisContext *connect_in(int protocol) {
    redisContext *redis = redisConnect("127.0.0.1", atoi(getenv("REDIS_PORT")));
    assert(redis && !redis->err);
    redisSetTimeout(redis, (struct timeval){.tv_sec = 60});
    if (protocol == 3) freeReplyObject(redisCommand(redis, "HELLO 3"));
    return redis;
}

/* Whether the reply has that type: an error, with that code before its text. */
static int is(redisReply *reply, int type, const char *code) {
    int result = reply && reply->type == type && (!code || !strncmp(reply->str, code, strlen(code)));
    freeReplyObject(reply);
    return result;
}

/* The fence of a grant. */
static long long granted(redisReply *reply, const char *owner) {
    assert(reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 4);
    assert(!strcmp(reply->element[0]->str, owner) && reply->element[2]->integer == 1 && reply->element[3]->integer > 0);
    long long fence = reply->element[1]->integer;
    freeReplyObject(reply);
    return fence;
}

/* LOCK.INFO is pairs in a row in RESP2, a map in RESP3; hiredis has the elements of both in a row. */
static long long waiters(redisContext *redis, const char *key) {
    redisReply *reply = redisCommand(redis, "LOCK.INFO %s", key);
    long long value = -1;
    assert(reply && reply->elements);
    for (size_t at = 0; at + 1 < reply->elements; at += 2)
        if (!strcmp(reply->element[at]->str, "waiters")) value = reply->element[at + 1]->integer;
    freeReplyObject(reply);
    return value;
}

struct wait {
    redisContext *redis;
    const char *key;
};

static void *wait_as_bob(void *given) {
    struct wait *wait = given;
    return redisCommand(wait->redis, "LOCK.ACQUIRE %s OWNER bob PX 30000 BLOCK 0", wait->key);
}

static void from_grant_to_end(int protocol) {
    redisContext *one = connect_in(protocol), *other = connect_in(protocol);
    char key[33];
    make_owner(key); /* a lock that no other test has */
    long long fence = granted(redisCommand(one, "LOCK.ACQUIRE %s OWNER alice PX 30000", key), "alice");
    assert(is(redisCommand(one, "LOCK.ACQUIRE %s OWNER bob", key), REDIS_REPLY_NIL, NULL));
    struct wait wait = {other, key};
    pthread_t waiting;
    assert(!pthread_create(&waiting, NULL, wait_as_bob, &wait));
    time_t end = time(NULL) + 60;
    while (waiters(one, key) != 1) assert(time(NULL) < end);
    assert(is(redisCommand(one, "LOCK.RELEASE %s alice FENCE %lld", key, fence), REDIS_REPLY_INTEGER, NULL));
    void *next;
    assert(!pthread_join(waiting, &next));
    assert(granted(next, "bob") > fence);
    assert(is(redisCommand(one, "LOCK.EXTEND %s alice", key), REDIS_REPLY_ERROR, "NOTHELD "));
    assert(is(redisCommand(one, "LOCK.RELEASE %s bob", key), REDIS_REPLY_INTEGER, NULL));
    assert(is(redisCommand(one, "LOCK.INFO %s", key), REDIS_REPLY_NIL, NULL));
    redisFree(one);
    redisFree(other);
    printf("ok: a lock from its grant to its end in RESP%d\n", protocol);
}

static void functions_of_the_documentation(void) {
    redisContext *redis = connect_in(2);
    char key[33], owner[33], other[33], third[33];
    make_owner(key), make_owner(owner), make_owner(other), make_owner(third);
    long long fence = lock_acquire(redis, key, owner, EXCLUSIVE, 60000, 0);
    assert(fence > 0);
    assert(lock_acquire(redis, key, other, EXCLUSIVE, 60000, 20) == 0);
    assert(lock_release(redis, key, owner, fence) == 0);
    assert(lock_release(redis, key, owner, fence) == -1);
    for (int limit = READERS; limit <= 2; limit += 2) { /* readers keep out a writer, two of two a third one */
        long long one = lock_acquire(redis, key, owner, limit, 60000, 0), two = lock_acquire(redis, key, other, limit, 60000, 0);
        assert(one > 0 && two > one);
        assert(lock_acquire(redis, key, third, limit == READERS ? EXCLUSIVE : limit, 60000, 20) == 0);
        assert(lock_release(redis, key, owner, one) == 0 && lock_release(redis, key, other, two) == 0);
    }
    long long next = lock_acquire(redis, key, other, EXCLUSIVE, 60000, 0);
    assert(next > fence);
    assert(is(redisCommand(redis, "LOCK.BREAK %s", key), REDIS_REPLY_INTEGER, NULL));
    assert(lock_release(redis, key, other, next) == -1);
    freeReplyObject(redisCommand(redis, "SET %s string", key));
    assert(lock_acquire(redis, key, owner, EXCLUSIVE, 60000, 0) == -1);
    redisFree(redis);
    printf("ok: the functions of the documentation\n");
}

static struct {
    char key[33];
    int inside, entered;
    long long fence;
} room;

/* Each thread has a context of its own. */
static void *take_turns(void *nothing) {
    redisContext *redis = connect_in(2);
    char owner[33];
    for (int round = 0; round < 20; round++) {
        make_owner(owner);
        long long fence = lock_acquire(redis, room.key, owner, EXCLUSIVE, 60000, 50000);
        assert(fence > room.fence); /* fences rise */
        room.fence = fence;
        assert(!room.inside++); /* nobody else is inside */
        room.entered++;
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL); /* the others' chance */
        room.inside--;
        assert(lock_release(redis, room.key, owner, fence) == 0);
    }
    redisFree(redis);
    return nothing;
}

static void many_threads(void) {
    pthread_t threads[100];
    make_owner(room.key);
    for (int at = 0; at < 100; at++) assert(!pthread_create(&threads[at], NULL, take_turns, NULL));
    for (int at = 0; at < 100; at++) assert(!pthread_join(threads[at], NULL));
    assert(room.entered == 100 * 20);
    printf("ok: a hundred threads take turns at one lock\n");
}

int main(void) {
    from_grant_to_end(2);
#if HIREDIS_MAJOR >= 1
    from_grant_to_end(3);
#endif
    functions_of_the_documentation();
    many_threads();
}
