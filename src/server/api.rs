//! The macro `api!`, which calls a function of the module API, and the functions that the server must have.

use redis_module::raw;

/// Calls a function of the module API that is in the list `required!`. The macro must be used inside `unsafe`.
///
/// There is no check that the server has the function, because an acquire and a release together make some thirty calls, and each check
/// would take time.
#[cfg(not(fuzzing))]
macro_rules! api {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        let () = $crate::server::api::Required::$function;
        // SAFETY: the server fills the table of functions when it loads the module, and `load` refuses the module if a function of the list
        // is absent, before it calls any of these functions. The function's own conditions are the caller's to meet.
        (match ::redis_module::raw::$function {
            Some(function) => function,
            None => ::std::hint::unreachable_unchecked(),
        })($($argument),*)
    }};
}

/// Calls a function of the module API in a fuzzer, where no server has loaded the module. Panics if `fuzzing.rs` lacks the function.
#[cfg(fuzzing)]
macro_rules! api {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        let () = $crate::server::api::Required::$function;
        match ::redis_module::raw::$function {
            Some(function) => function($($argument),*),
            None => panic!("{}", stringify!($function)),
        }
    }};
}

/// Declares the required functions. Each function becomes a constant of `Required`. `api!` names the constant of the function that it
/// calls, so `api!` can't call a function that is not in the list.
macro_rules! required {
    ($($function:ident),* $(,)?) => {
        pub(in crate::server) struct Required;

        #[allow(non_upper_case_globals)]
        impl Required {
            $(pub(in crate::server) const $function: () = ();)*
        }

        /// Returns the first required function that the server does not have, if there is one.
        pub(super) fn missing() -> Option<&'static str> {
            // SAFETY: the server wrote the table of functions just before, and nobody writes to it any more.
            $(if unsafe { raw::$function }.is_none() { return Some(stringify!($function)); })*
            None
        }
    };
}

required!(
    RedisModule_ACLAddLogEntry,
    RedisModule_ACLCheckChannelPermissions,
    RedisModule_ACLCheckKeyPermissions,
    RedisModule_AvoidReplicaTraffic,
    RedisModule_BlockClientOnKeys,
    RedisModule_BlockedClientDisconnected,
    RedisModule_Call,
    RedisModule_CallReplyArrayElement,
    RedisModule_CallReplyInteger,
    RedisModule_CallReplyStringPtr,
    RedisModule_CallReplyType,
    RedisModule_CloseKey,
    RedisModule_CommandFilterArgGet,
    RedisModule_CreateCommand,
    RedisModule_CreateDataType,
    RedisModule_CreateString,
    RedisModule_CreateTimer,
    RedisModule_DefragAlloc,
    RedisModule_DeleteKey,
    RedisModule_DigestAddLongLong,
    RedisModule_DigestAddStringBuffer,
    RedisModule_DigestEndSequence,
    RedisModule_EmitAOF,
    RedisModule_Free,
    RedisModule_FreeCallReply,
    RedisModule_FreeModuleUser,
    RedisModule_FreeServerInfo,
    RedisModule_FreeString,
    RedisModule_GetAbsExpire,
    RedisModule_GetBlockedClientPrivateData,
    RedisModule_GetClientId,
    RedisModule_GetClientInfoById,
    RedisModule_GetClientUserNameById,
    RedisModule_GetCommand,
    RedisModule_GetContextFlags,
    RedisModule_GetContextFromIO,
    RedisModule_GetCurrentUserName,
    RedisModule_GetDbIdFromModuleKey,
    RedisModule_GetDbIdFromOptCtx,
    RedisModule_GetDetachedThreadSafeContext,
    RedisModule_GetKeyNameFromIO,
    RedisModule_GetKeyNameFromOptCtx,
    RedisModule_GetModuleUserFromUserName,
    RedisModule_GetSelectedDb,
    RedisModule_GetServerInfo,
    RedisModule_InfoAddFieldULongLong,
    RedisModule_InfoAddSection,
    RedisModule_IsIOError,
    RedisModule_IsKeysPositionRequest,
    RedisModule_KeyAtPosWithFlags,
    RedisModule_KeyType,
    RedisModule_LoadConfigs,
    RedisModule_LoadStringBuffer,
    RedisModule_LoadUnsigned,
    RedisModule_Log,
    RedisModule_ModuleTypeGetType,
    RedisModule_ModuleTypeGetValue,
    RedisModule_ModuleTypeSetValue,
    RedisModule_NotifyKeyspaceEvent,
    RedisModule_OpenKey,
    RedisModule_PublishMessage,
    RedisModule_PublishMessageShard,
    RedisModule_RegisterCommandFilter,
    RedisModule_RegisterInfoFunc,
    RedisModule_RegisterNumericConfig,
    RedisModule_Replicate,
    RedisModule_ReplicateVerbatim,
    RedisModule_ReplyWithArray,
    RedisModule_ReplyWithError,
    RedisModule_ReplyWithLongLong,
    RedisModule_ReplyWithMap,
    RedisModule_ReplyWithNull,
    RedisModule_ReplyWithNullArray,
    RedisModule_ReplyWithSimpleString,
    RedisModule_ReplyWithStringBuffer,
    RedisModule_SaveStringBuffer,
    RedisModule_SaveUnsigned,
    RedisModule_SelectDb,
    RedisModule_ServerInfoGetFieldC,
    RedisModule_SetAbsExpire,
    RedisModule_SetCommandInfo,
    RedisModule_SetDisconnectCallback,
    RedisModule_SetModuleOptions,
    RedisModule_SignalModifiedKey,
    RedisModule_StopTimer,
    RedisModule_StringPtrLen,
    RedisModule_StringToLongLong,
    RedisModule_SubscribeToKeyspaceEvents,
    RedisModule_SubscribeToServerEvent,
    RedisModule_UnblockClient,
    RedisModule_UnregisterCommandFilter,
);
