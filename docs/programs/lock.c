#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* 32 hexadecimal digits that nobody else has. */
static void make_owner(char owner[33]) {
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) abort();
    for (int at = 0; at < 16; at++) sprintf(owner + 2 * at, "%02x", bytes[at]);
}

/* How many may hold the lock at a time: EXCLUSIVE, any number of readers, or n. */
enum { READERS = 0, EXCLUSIVE = 1 };

/* The fence, or 0 where someone else still holds the lock when the wait is over, or -1 after an error. */
static long long lock_acquire(redisContext *redis, const char *key, const char *owner, int limit, int lease_ms, int wait_ms) {
    redisReply *reply = limit == READERS
        ? redisCommand(redis, "LOCK.ACQUIRE %s OWNER %s SHARED PX %d BLOCK %d ONCE", key, owner, lease_ms, wait_ms)
        : redisCommand(redis, "LOCK.ACQUIRE %s OWNER %s LIMIT %d PX %d BLOCK %d ONCE", key, owner, limit, lease_ms, wait_ms);
    long long fence = -1;
    if (reply && reply->type == REDIS_REPLY_ARRAY) fence = reply->element[1]->integer;
    else if (reply && reply->type == REDIS_REPLY_NIL) fence = 0;
    else fprintf(stderr, "%s: %s\n", key, reply ? reply->str : redis->errstr);
    if (reply) freeReplyObject(reply);
    return fence;
}

/* 0, or -1 after an error: with NOTHELD the lock was lost meanwhile. */
static int lock_release(redisContext *redis, const char *key, const char *owner, long long fence) {
    redisReply *reply = redisCommand(redis, "LOCK.RELEASE %s %s FENCE %lld", key, owner, fence);
    int result = reply && reply->type == REDIS_REPLY_INTEGER ? 0 : -1;
    if (result) fprintf(stderr, "%s: %s\n", key, reply ? reply->str : redis->errstr);
    if (reply) freeReplyObject(reply);
    return result;
}

int main(void) {
    const char *port = getenv("REDIS_PORT");
    redisContext *redis = redisConnect("127.0.0.1", port ? atoi(port) : 6379);
    if (!redis || redis->err) {
        fprintf(stderr, "%s\n", redis ? redis->errstr : "out of memory");
        return EXIT_FAILURE;
    }
    redisSetTimeout(redis, (struct timeval){.tv_sec = 15}); /* above the wait */
    char owner[33];
    make_owner(owner);
    long long fence = lock_acquire(redis, "invoice:42", owner, EXCLUSIVE, 30000, 10000);
    if (fence > 0) printf("held with fence %lld\n", fence);
    int result = fence > 0 ? lock_release(redis, "invoice:42", owner, fence) : -1;
    redisFree(redis);
    return result ? EXIT_FAILURE : EXIT_SUCCESS;
}
