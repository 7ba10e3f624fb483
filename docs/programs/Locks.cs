using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Diagnostics;
using System.Threading;
using System.Threading.Tasks;
using StackExchange.Redis;

/// <summary>Locks through one multiplexer, which all tasks of the process share.</summary>
public sealed class Locks
{
    private readonly IDatabase redis;
    private readonly RedisChannel channel = RedisChannel.Literal("locks:" + Guid.NewGuid());
    private readonly ConcurrentDictionary<string, SemaphoreSlim> waiting = new ConcurrentDictionary<string, SemaphoreSlim>();

    private Locks(IDatabase redis) => this.redis = redis;

    /// <summary>Once in a process: it subscribes to the channel on which the server calls those who wait.</summary>
    public static async Task<Locks> CreateAsync(IConnectionMultiplexer multiplexer)
    {
        var locks = new Locks(multiplexer.GetDatabase());
        await multiplexer.GetSubscriber().SubscribeAsync(locks.channel, (_, message) => locks.Wake(message.ToString()));
        return locks;
    }

    /// <summary>The options are more words of LOCK.ACQUIRE.</summary>
    public async Task<T> WithLockAsync<T>(
        string key, Func<long, Task<T>> body, int leaseMs = 30_000, int waitMs = 10_000, params object[] options)
    {
        var owner = Guid.NewGuid().ToString();
        var fence = await AcquireAsync(key, owner, leaseMs, waitMs, options);
        T result;
        try
        {
            result = await body(fence);
        }
        catch
        {
            try { await ReleaseAsync(key, owner, fence); }
            catch (Exception) { } // what went wrong in the body tells more
            throw;
        }
        await ReleaseAsync(key, owner, fence); // throws NOTHELD if the lock was lost meanwhile
        return result;
    }

    private async Task<long> AcquireAsync(string key, string owner, int leaseMs, int waitMs, object[] options)
    {
        var clock = Stopwatch.StartNew();
        var wake = waiting[owner] = new SemaphoreSlim(0); // before asking: the message can come before the reply
        try
        {
            for (;;)
            {
                var left = waitMs - clock.ElapsedMilliseconds;
                var words = new List<object> { (RedisKey)key, "OWNER", owner,
                    "PX", leaseMs, "BLOCK", Math.Max(left, 1), "NOTIFY", channel, "ONCE" };
                words.AddRange(options);
                var reply = await redis.ExecuteAsync("LOCK.ACQUIRE", words);
                if (reply.Length >= 4) return (long)reply[1];
                if (left <= 0) throw new TimeoutException("someone else holds " + key);
                // QUEUED: asks again when a message comes, and every 4 s in case it was lost. The place is kept.
                await wake.WaitAsync(TimeSpan.FromMilliseconds(Math.Min(left, 4_000)));
            }
        }
        catch
        {
            // Gives up the place, or the grant that came too late.
            await redis.ExecuteAsync("LOCK.LEAVE", new object[] { (RedisKey)key, owner }, CommandFlags.FireAndForget);
            throw;
        }
        finally
        {
            waiting.TryRemove(owner, out _);
        }
    }

    private Task ReleaseAsync(string key, string owner, long fence) =>
        redis.ExecuteAsync("LOCK.RELEASE", (RedisKey)key, owner, "FENCE", fence);

    /// <summary>"granted FENCE OWNER", "timeout OWNER" or "gone OWNER". Only a hint: the reply to the next question counts.</summary>
    private void Wake(string message)
    {
        if (waiting.TryGetValue(message.Substring(message.LastIndexOf(' ') + 1), out var wake)) wake.Release();
    }
}
