// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

extension DeviceDirectory {
    /// One watcher's position in the directory, independent of other watchers. It remembers the reported state and computes
    /// each event on demand from the current state, so events neither queue up nor get lost.
    package struct Iteration: Sendable {
        private let filters: RemoteSystemFilterSet
        private var reported: [RemoteSystem.ID: Device] = [:]
        private var reportedError: UInt64 = 0
        private var hasReportedEnumeration = false
        /// The revision at which no event was left.
        private var drained: UInt64?

        package init(matching filters: [RemoteSystemFilter] = []) {
            self.filters = RemoteSystemFilterSet(filters)
        }

        /// The next event; `nil` until the directory's revision grows.
        /// - Parameter directory: The same directory in each call.
        package mutating func next(in directory: DeviceDirectory) -> RemoteSystemEvent? {
            guard drained != directory.revision else { return nil }
            let event = nextChange(in: directory) ?? nextNotice(in: directory)
            drained = event == nil ? directory.revision : nil
            return event
        }

        /// Removed devices come first, so that the reported state is never larger than the directory. Then comes the device whose
        /// change is oldest, so that a device that changes all the time does not hide the others.
        private mutating func nextChange(in directory: DeviceDirectory) -> RemoteSystemEvent? {
            let devices = directory.devices(hidesLocalApp: filters.hidesLocalApp).filter {
                filters.matches($0.value.system, account: directory.account)
            }
            if let gone = reported.keys.filter({ devices[$0] == nil }).min(), let device = reported.removeValue(forKey: gone) {
                return .removed(device.system)
            }
            let changed = devices.values.filter { reported[$0.system.id]?.revision != $0.revision }
            for device in changed.sorted(by: { $0.revision < $1.revision }) {
                let before = reported.updateValue(device, forKey: device.system.id)
                // The device may have changed back, or changed only in something that events do not show.
                if before?.system != device.system { return before == nil ? .added(device.system) : .updated(device.system) }
            }
            return nil
        }

        private mutating func nextNotice(in directory: DeviceDirectory) -> RemoteSystemEvent? {
            if let error = directory.error, error.revision > reportedError {
                reportedError = error.revision
                return .error(error.value)
            }
            if directory.isEnumerated, !hasReportedEnumeration {
                hasReportedEnumeration = true
                return .enumerationCompleted
            }
            return nil
        }
    }
}
