// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors
//
// For Xcode: not compiled on Linux, where only its syntax is checked.

#if canImport(UIKit)
import DeviceRelay
import UIKit

/// The devices with their apps, as the original's sample shows them: one section for each device, one row for each app.
final class DevicesViewController: ListViewController {
    private let device: SampleDevice
    private var list: DeviceList { device.devices }

    init(_ device: SampleDevice) {
        self.device = device
        super.init(style: .insetGrouped)
        title = "Devices"
        tabBarItem.image = UIImage(systemName: "laptopcomputer.and.iphone")
    }

    @available(*, unavailable) required init?(coder: NSCoder) { nil }

    override func viewDidLoad() {
        super.viewDidLoad()
        navigationItem.rightBarButtonItem = UIBarButtonItem(title: "Filters", menu: menu())
        navigationItem.rightBarButtonItem?.accessibilityLabel = "Filters of the device list"
    }

    override func viewWillAppear(_ animated: Bool) {
        super.viewWillAppear(animated)
        watch()
    }

    override func content() -> [Part] {
        let notices = Part(header: nil, rows: rows(device.connection) + rows(list.notice) + placeholder)
        return [notices]
            + list.rows.map { row in
                let header = [row.name, row.presence, row.trust, row.label].compactMap { $0 }.joined(separator: " · ")
                return Part(
                    header: header,
                    rows: row.targets.map { target in
                        Row(title: target.name, detail: target.detail, spoken: "\(target.name) on \(row.spoken)") { [weak self] in
                            self?.open(target)
                        }
                    }
                )
            }
    }

    private var placeholder: [Row] { list.placeholder.map { [Row(title: $0)] } ?? [] }

    private func open(_ target: LaunchTarget) {
        let screen = TargetViewController(device.launching(target), device.service(target))
        navigationController?.pushViewController(screen, animated: true)
    }

    /// The watch ends when the screen goes away, and begins again with other filters.
    private func watch() {
        work.cancelAll()
        work.run("watch") { [list] in await list.watch() }
    }

    private func menu() -> UIMenu {
        let kinds =
            [UIAction(title: "All kinds") { [weak self] _ in self?.filter { $0.kind = nil } }]
            + DeviceFilters.kinds.map { kind in
                UIAction(title: kind.rawValue) { [weak self] _ in self?.filter { $0.kind = kind } }
            }
        let platforms =
            [UIAction(title: "All systems") { [weak self] _ in self?.filter { $0.platform = nil } }]
            + DeviceFilters.platforms.map { platform in
                UIAction(title: platform.rawValue) { [weak self] _ in self?.filter { $0.platform = platform } }
            }
        let ways = DeviceFilters.Way.allCases.map { way in
            UIAction(title: way.label) { [weak self] _ in self?.filter { $0.way = way } }
        }
        let switches = [
            UIAction(title: "Available only, or all") { [weak self] _ in self?.filter { $0.isAvailableOnly.toggle() } },
            UIAction(title: "Show or hide this device") { [weak self] _ in self?.filter { $0.showsThisDevice.toggle() } },
        ]
        return UIMenu(children: [
            UIMenu(title: "Kind", children: kinds), UIMenu(title: "System", children: platforms), UIMenu(title: "Way", children: ways),
            UIMenu(options: .displayInline, children: switches),
        ])
    }

    private func filter(_ change: (inout DeviceFilters) -> Void) {
        change(&list.filters)
        watch()
    }
}
#endif
