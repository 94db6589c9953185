// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
public import RelayProtocol
import Synchronization

/// Sends files, folders, links and texts to other devices: the original's `NearShareSender`.
public struct NearShareSender: Sendable {
    private let platform: ConnectedDevicesPlatform

    /// A sender for the accounts of a platform.
    public init(_ platform: ConnectedDevicesPlatform) { self.platform = platform }

    /// Whether an app of the target receives what is sent: see `RemoteSystemAppRegistration.sharing`.
    public func isNearShareSupported(_ request: RemoteSystemConnectionRequest) -> Bool { platform.receiver(request) != nil }

    /// Begins to send. The content is end to end encrypted, and the other device decides whether it takes it.
    ///
    /// A lost connection does not end the transfer: it continues where it was, as soon as the other device can be reached again. After
    /// `patience` without any progress it fails. Sending the same again then continues it.
    /// - Parameters:
    ///   - items: What to send. It is read while it is sent; a file that changes meanwhile is left out.
    ///   - request: The device, or the app on it that receives.
    ///   - patience: How long a transfer that has begun waits for the other device. Default: 10 min.
    public func send(
        _ items: [NearShareItem],
        to request: RemoteSystemConnectionRequest,
        patience: Duration = .seconds(600)
    ) -> NearShareOperation {
        NearShareOperation(ShareSending(items, to: KnownShareTarget(request: request, platform: platform), patience: patience))
    }

    /// Begins to send to a device that its person has made visible to receive, and that need not know this one. **Nothing proves whose device
    /// it is:** anyone on the network can give the name. The content is end to end encrypted to whoever answers first, and all attempts of
    /// this transfer go to that one. The other person is asked, and sees this device's name.
    /// - Parameters:
    ///   - items: What to send, as above.
    ///   - device: One of `withVisibleDevices`, whose mode is `receive`.
    ///   - patience: As above.
    public func send(_ items: [NearShareItem], to device: VisibleDevice, patience: Duration = .seconds(600)) -> NearShareOperation {
        let target = VisibleShareTarget(device, platform)
        return NearShareOperation(ShareSending(items, to: target, patience: patience), receiver: { target.endpoint })
    }
}

/// A running transfer to another device. It ends when it is cancelled or no longer referenced.
public final class NearShareOperation: Sendable {
    private let sending: ShareSending
    private let receiver: @Sendable () -> EndpointID?
    private let outcome = OneShot<Result<NearShareReport, NearShareError>>()
    private let task: Task<Void, Never>

    init(_ sending: ShareSending, receiver: @escaping @Sendable () -> EndpointID? = { nil }) {
        (self.sending, self.receiver) = (sending, receiver)
        let outcome = outcome
        task = Task {  // Owner: this operation; `deinit` cancels it
            let result: Result<NearShareReport, NearShareError>
            do throws(NearShareError) { result = .success(try await sending.run()) } catch { result = .failure(error) }
            sending.progress.finish()
            outcome.settle(result)
        }
    }

    deinit { task.cancel() }

    /// How far it is: the current value, then each new one. It ends with the transfer.
    public var progress: AsyncValues<NearShareProgress> { AsyncValues(sending.progress) { $0 } }

    /// The key of the visible device to which the transfer goes, once it has answered; `nil` for a device that is known.
    public var receivingEndpoint: EndpointID? { receiver() }

    /// Waits for the end. It returns when the other device has everything on its disk, but what the report says is left out.
    /// - Throws: `NearShareError`; `cancelled` also if the waiting task is cancelled, and then the transfer goes on.
    public func result() async throws(NearShareError) -> NearShareReport {
        guard let result = await outcome.wait() else { throw NearShareError(.cancelled, "the wait was cancelled; the transfer goes on") }
        return try result.get()
    }

    /// Ends the transfer. What has arrived stays on the other device as an unfinished part, for another attempt.
    public func cancel() { task.cancel() }
}

extension ConnectedDevicesPlatform {
    /// The service of the app that receives what is sent to a target; `nil` if no app, or more than one, does.
    fileprivate func receiver(_ request: RemoteSystemConnectionRequest) -> AppServiceInfo? {
        let providers: [any DeviceProvider] = state.withLock { state in
            state.endpoints.values.filter { request.accountID == nil || request.accountID == $0.account.id }
        }
        for provider in providers {
            if let found = try? provider.directory.resolve(serviceNamed: ShareMessages.serviceName, on: request) { return found.info }
        }
        return nil
    }
}
