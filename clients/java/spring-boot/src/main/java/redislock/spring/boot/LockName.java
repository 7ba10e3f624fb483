package redislock.spring.boot;

/** A bean that names locks in meters and spans, with few names for all keys: "invoice" for "invoice:42". Without one, they have none. */
@FunctionalInterface
public interface LockName {
    /** The name of a lock. Of several, the first one is named. */
    String of(String key);
}
