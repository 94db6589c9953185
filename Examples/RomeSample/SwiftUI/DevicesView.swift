// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors
//
// For Xcode: not compiled on Linux, where only its syntax is checked.

#if canImport(SwiftUI) && os(iOS)
import DeviceRelay
import SwiftUI

/// The devices with their apps, as the original's sample shows them.
struct DevicesView: View {
    let device: SampleDevice
    @Bindable var list: DeviceList

    var body: some View {
        NavigationStack {
            List {
                NoticeView(notice: device.connection)
                if let notice = list.notice { NoticeView(notice: notice) }
                if let placeholder = list.placeholder { Text(placeholder).foregroundStyle(.secondary) }
                ForEach(list.rows) { row in
                    Section {
                        ForEach(row.targets) { target in
                            NavigationLink(value: target) { TargetLabel(target: target) }
                        }
                    } header: {
                        DeviceHeader(row: row)
                    }
                }
            }
            .navigationTitle("Devices")
            .navigationDestination(for: LaunchTarget.self) { target in
                TargetView(launching: device.launching(target), service: device.service(target))
            }
            .toolbar { FilterMenu(list: list) }
            // The watch ends when the screen goes away, and begins again with other filters.
            .task(id: list.filters) { await list.watch() }
        }
    }
}

struct DeviceHeader: View {
    let row: DeviceRow

    var body: some View {
        VStack(alignment: .leading) {
            Label(row.name, systemImage: row.isAsleep ? "moon.zzz" : "desktopcomputer").font(.headline)
            Text(row.detail)
            Text(row.presence)
            if let trust = row.trust { Text(trust).bold() }
            Text(row.label).font(.caption.monospaced())
        }
        .textCase(nil)
        .accessibilityElement(children: .ignore)
        .accessibilityLabel(row.spoken)
        .accessibilityAddTraits(.isHeader)
    }
}

struct TargetLabel: View {
    let target: LaunchTarget

    var body: some View {
        VStack(alignment: .leading) {
            Text(target.name)
            Text(target.detail).font(.caption).foregroundStyle(.secondary)
        }
        .accessibilityElement(children: .combine)
    }
}

struct FilterMenu: View {
    @Bindable var list: DeviceList

    var body: some View {
        Menu {
            Picker("Kind", selection: $list.filters.kind) {
                Text("All kinds").tag(RemoteSystemKind?.none)
                ForEach(DeviceFilters.kinds, id: \.self) { Text($0.rawValue).tag(Optional($0)) }
            }
            Picker("System", selection: $list.filters.platform) {
                Text("All systems").tag(RemoteSystemPlatform?.none)
                ForEach(DeviceFilters.platforms, id: \.self) { Text($0.rawValue).tag(Optional($0)) }
            }
            Picker("Way", selection: $list.filters.way) {
                ForEach(DeviceFilters.Way.allCases) { Text($0.label).tag($0) }
            }
            Toggle("Available only", isOn: $list.filters.isAvailableOnly)
            Toggle("Show this device", isOn: $list.filters.showsThisDevice)
        } label: {
            Label("Filters", systemImage: "line.3.horizontal.decrease.circle")
        }
        .accessibilityLabel("Filters of the device list")
    }
}
#endif
